// A few numbers as bars, one below the other: distances from `zero`, on a scale up to `reach` at least.

export function Bars({ bars, zero = 0, reach = zero }) {
  const values = bars.map((bar) => bar.seconds);
  const low = Math.min(zero, ...values);
  const span = Math.max(zero, reach, ...values) - low || 1;
  const share = (value) => `${(70 * value) / span}%`;
  return (
    <dl class="bars">
      {bars.map(({ name, seconds, kind, text }) => (
        <div>
          <dt>{name}</dt>
          <dd>
            <span class={`bar ${kind}`} style={{ marginLeft: share(Math.min(zero, seconds) - low), width: share(Math.abs(seconds - zero)) }} />
            <span class="value">{text}</span>
          </dd>
        </div>
      ))}
    </dl>
  );
}
