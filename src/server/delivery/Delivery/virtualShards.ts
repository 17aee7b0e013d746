/**
 * Shards of the queue. Each queued row stores its shard, so the number is fixed: another would need a migration of the
 * rows, and replicas of two releases would disagree about it.
 */
export const SHARDS = 16

/** Virtual shards of each shard: what replicas lease, so that more replicas than shards can send. */
const PARTS = 16

/** All virtual shards. Virtual shard v is a part of shard v modulo 16. */
export const VIRTUAL_SHARDS = SHARDS * PARTS

/** A set with every part of a shard. Bit n stands for part n. */
export const ALL_PARTS = 2 ** PARTS - 1

/** Maps a destination to its shard: FNV-1a over its id. Never changes, because queued rows were placed by it. */
export const shardOf = (destination_id: string): number => {
  let hash = 0x811c9dc5
  for (let i = 0; i < destination_id.length; i++) {
    hash = Math.imul(hash ^ destination_id.charCodeAt(i), 0x01000193)
  }
  return (hash >>> 0) % SHARDS
}

/**
 * The digits of ids, whose last one is random. It decides on a destination's part, because SQL can compute it from a row
 * too (`QueueReads`), which stores no part: so replicas of earlier releases insert the same rows.
 */
const DIGITS = "0123456789abcdef"

/** The part of a destination within its shard, from 0. An id that ends otherwise is in part 0. */
const partOf = (destination_id: string): number => Math.max(0, DIGITS.indexOf(destination_id.slice(-1)))

/** The part of the row `q` of the queue, in SQL. */
export const PART_OF_ROW = `greatest(0, position(right(q.destination_id, 1) IN '${DIGITS}') - 1)`

/** The virtual shard of a destination in this shard. */
export const virtualShardIn = (shard: number, destination_id: string): number =>
  shard + SHARDS * partOf(destination_id)

/** The virtual shard of a destination. */
export const virtualShardOf = (destination_id: string): number =>
  virtualShardIn(shardOf(destination_id), destination_id)

/** The bit of a virtual shard in a set of parts of its shard. */
export const partBit = (virtualShard: number): number => 1 << Math.floor(virtualShard / SHARDS)
