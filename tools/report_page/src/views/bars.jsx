// A few durations as bars, one below the other, from zero.

export function Bars({ bars }) {
  const most = Math.max(...bars.map((bar) => bar.seconds));
  return (
    <dl class="bars">
      {bars.map((bar) => (
        <div>
          <dt>{bar.name}</dt>
          <dd>
            <span class={`bar ${bar.kind}`} style={{ width: `${(75 * bar.seconds) / most}%` }} />
            <span class="value">{bar.text}</span>
          </dd>
        </div>
      ))}
    </dl>
  );
}
