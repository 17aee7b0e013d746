/**
 * Shards of the queue: what replicas lease, so at most this many can send. Each queued row stores its shard, so another number would need a
 * migration of the rows.
 */
export const SHARDS = 256

/** The numbers of all shards. */
export const allShards: ReadonlyArray<number> = Array.from({ length: SHARDS }, (_, shard) => shard)

/** Maps a destination to its shard: FNV-1a over its id. Never changes, because queued rows were placed by it. */
export const shardOf = (destination_id: string): number => {
  let hash = 0x811c9dc5
  for (let i = 0; i < destination_id.length; i++) {
    hash = Math.imul(hash ^ destination_id.charCodeAt(i), 0x01000193)
  }
  return (hash >>> 0) % SHARDS
}
