// What miss-ratio curves say. A curve is a list of [bytes, miss ratio], the bytes rising; between
// points it is linear, before the first it comes from 1 at no memory, after the last it is flat.
export function missRatio(points, size) {
  let [beforeSize, beforeMiss] = [0, 1];
  for (const [at, miss] of points) {
    if (at >= size) return at === beforeSize ? miss : beforeMiss + (miss - beforeMiss) * (size - beforeSize) / (at - beforeSize);
    [beforeSize, beforeMiss] = [at, miss];
  }
  return beforeMiss;
}

// The memory beyond which less than a hundredth of the reads is saved.
export function workingSet(points) {
  if (!points.length) return 0;
  const enough = points.at(-1)[1] + 0.01;
  let [beforeSize, beforeMiss] = [0, 1];
  for (const [at, miss] of points) {
    if (miss <= enough) return beforeMiss === miss ? at : beforeSize + (at - beforeSize) * Math.max(0, beforeMiss - enough) / (beforeMiss - miss);
    [beforeSize, beforeMiss] = [at, miss];
  }
  return beforeSize;
}

// The miss ratio with this memory: as measured with what the pool uses, and changed as its curve
// changes between that and this.
export function predicted(pool, size) {
  const shift = pool.missRatio == null ? 0 : pool.missRatio - missRatio(pool.points, pool.used);
  return Math.min(1, Math.max(0, missRatio(pool.points, size) + shift));
}

// One more or one less of this is worth asking about: 1 GiB, or a quarter of a smaller pool, as a
// power of two.
export function step(granted) {
  const GIB = 2 ** 30;
  return granted >= 4 * GIB ? GIB : 2 ** Math.max(16, Math.floor(Math.log2(Math.max(granted, 1) / 4)));
}

// Divides `total` so that pool `moved` has `size`: others give or receive as they have above their
// least, but for those that are kept. `sizes` changes in place; returns what `moved` has.
export function divide(sizes, leasts, kept, moved, size, total) {
  const others = sizes.map((_, i) => i).filter(i => i !== moved && !kept[i]);
  const fixed = sizes.reduce((sum, bytes, i) => i !== moved && kept[i] ? sum + bytes : sum, 0);
  const floor = others.reduce((sum, i) => sum + leasts[i], 0);
  if (!others.length) return sizes[moved];
  size = Math.max(leasts[moved], Math.min(size, total - fixed - floor));
  const left = total - fixed - size - floor, spare = others.reduce((sum, i) => sum + Math.max(0, sizes[i] - leasts[i]), 0);
  for (const i of others) {
    const share = spare > 0 ? Math.max(0, sizes[i] - leasts[i]) / spare : 1 / others.length;
    sizes[i] = leasts[i] + left * share;
  }
  sizes[moved] = size;
  return size;
}
