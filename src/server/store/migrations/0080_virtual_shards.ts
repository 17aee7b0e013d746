import { Effect } from "effect"
import { comments } from "./comments.ts"
import { statements } from "./statements.ts"

/** Virtual shards: 16 in each of the 16 shards of the queue. */
const VIRTUAL_SHARDS = 256

/**
 * Divides each shard of the delivery queue into 16 virtual shards, which have owners of their own, so that up to 256 replicas can send.
 * Rows of the queue stay as they are. A replica of an earlier release claims whole shards in `delivery_shards`; the others hold a shard there
 * together, under the owner `virtual shards`, while any of them lives. So a shard is sent either by one earlier replica, or by the owners of
 * its virtual shards.
 */
export default Effect.andThen(
  statements(
    `CREATE TABLE delivery_virtual_shards (
      virtual_shard smallint PRIMARY KEY,
      owner text COLLATE "C",
      epoch bigint NOT NULL DEFAULT 0
    ) WITH (fillfactor = 50)`,
    `INSERT INTO delivery_virtual_shards (virtual_shard) SELECT generate_series(0, ${VIRTUAL_SHARDS - 1})`,
    `CREATE TABLE delivery_leases (
      owner text COLLATE "C" PRIMARY KEY,
      lease_until timestamptz NOT NULL
    ) WITH (fillfactor = 50)`
  ),
  comments({
    delivery_shards: [
      "Leases on the shards of the delivery queue, one row per shard.",
      {
        owner:
          "Replica that owns the shard; `virtual shards`: the owners of its virtual shards do; null: none."
      }
    ],
    delivery_virtual_shards: [
      "Owners of the virtual shards, one row each. Virtual shard v is a part of shard v modulo 16.",
      {
        virtual_shard: "Number of the virtual shard.",
        owner: "Replica that owns it while it has a lease in delivery_leases; null: none.",
        epoch:
          "Raised by each change of owner. Added to the epoch of its shard, it is the fencing token of the owner's writes."
      }
    ],
    delivery_leases: [
      "Leases of the replicas on all virtual shards that they own, one row per replica.",
      {
        owner: "Random id of the replica.",
        lease_until: "When the lease ends; then any replica removes the row, and the virtual shards are free."
      }
    ]
  })
)
