// Reads what mcm_compiler/page/packed.py wrote: bytes, deflated, in base64.

const ARRAYS = { f8: Float64Array, f4: Float32Array, i4: Int32Array, u2: Uint16Array, u1: Uint8Array };

/** The typed array, or the list of texts, of a packed value. */
export async function unpack({ type, data }) {
  const packed = Uint8Array.from(atob(data), (c) => c.charCodeAt(0));
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("deflate"));
  const bytes = await new Response(stream).arrayBuffer();
  return type === "texts" ? JSON.parse(new TextDecoder().decode(bytes)) : new ARRAYS[type](bytes);
}

/** An object in which every packed value is replaced by what it holds; others stay. */
export async function unpackAll(object) {
  const entries = await Promise.all(
    Object.entries(object).map(async ([key, value]) => [
      key,
      value && typeof value === "object" && "type" in value && "data" in value
        ? await unpack(value)
        : value,
    ]),
  );
  return Object.fromEntries(entries);
}
