/**
 * Bugs that are planted to see that the simulation finds them: a text of a source file is replaced while the file is
 * loaded, so that the checkout stays as it is.
 */
import { readFileSync } from "node:fs"
import { registerHooks } from "node:module"
import { fileURLToPath } from "node:url"
import { approvalBugs } from "./approvals/planted.ts"

/** A planted bug. */
export interface PlantedBug {
  readonly file: string
  readonly from: string
  readonly to: string
  /** Why a run hardly ever shows it. It is reported, and not counted as a failure, if no seed finds it. */
  readonly rare?: string
}

const engine = "src/server/delivery/Delivery"
const model = "scripts/simulate/delivery/DeliveryModel.ts"

export const plantedBugs: Readonly<Record<string, PlantedBug>> = {
  "lease-margin": {
    file: `${engine}/Shards.ts`,
    from: "one.leaseUntil - now >= marginMillis",
    to: "true"
  },
  "lease-counted-from-answer": {
    file: `${engine}/Shards.ts`,
    from: "if (epochs.get(one.shard) === one.epoch) one.leaseUntil = before + leaseMillis",
    to: "if (epochs.get(one.shard) === one.epoch) one.leaseUntil = monotonicMillis(clock) + leaseMillis"
  },
  "renewal-by-number": {
    file: `${engine}/Shards.ts`,
    from: "if (epochs.get(one.shard) === one.epoch)",
    to: "if (epochs.has(one.shard))",
    rare: "a renewal drops a lost shard before it is regained"
  },
  "start-by-number": {
    file: `${engine}/Shards.ts`,
    from: "owned.get(one.shard) === one && !one.draining",
    to: "owned.has(one.shard) && !one.draining",
    rare: "the lanes of a lost shard are dropped in the same step"
  },
  "release-with-open-attempts": {
    file: `${engine}/Shards.ts`,
    from: ".filter((one) => one.draining && one.unfinished === 0)",
    to: ".filter((one) => one.draining)"
  },
  "stale-reads": {
    file: `${engine}/ReadTracker.ts`,
    from: "return entry !== undefined && entry.attempt >= attempt",
    to: "return entry !== undefined && entry.attempt > attempt + 1_000"
  },
  "reads-of-lost-shards": {
    file: `${engine}/Lanes.ts`,
    from: "if (readBeganAt < owned.claimedAt) return undefined",
    to: "",
    rare: "a read must take longer than another owner needs to claim, send, record and release"
  },
  "no-reread": {
    file: `${engine}/Reader.ts`,
    from: "again ? Math.max(one.stableWatermark, one.watermark - REREAD_ROWS, 0) : one.watermark",
    to: "one.watermark",
    rare: "the sweep finds the rows a few seconds later"
  },
  "no-sweep": {
    file: `${engine}/Reader.ts`,
    from: "for (const { shard } of yield* store.nonEmpty([...shards.owned.keys()])) yield* sweepShard(shard, found)",
    to: ""
  },
  "retry-of-unwritten": {
    file: `${engine}/Finisher.ts`,
    from: 'verdict._tag === "RetryLater" && written.has(result.delivery.seq) ? now + verdict.delay : null',
    to: 'verdict._tag === "RetryLater" ? now + verdict.delay : null',
    rare: "the lane of a result that was not written is dropped at the next renewal, before most retries are due"
  },
  "lost-lanes-kept": {
    file: `${engine}/Lanes.ts`,
    from: "for (const lane of lanes.values()) if (!has(lane)) drop(lane)",
    to: ""
  },
  "slot-leak": {
    file: `${engine}/Slots.ts`,
    from: "organization.running--",
    to: "if (isRetry(delivery)) organization.running--"
  },
  "attempt-fence": {
    file: model,
    from: "return row?.attempt === attempt && transaction.get",
    to: "return row !== undefined && transaction.get",
    rare: "the row is looked at again under its lock, and the epoch is checked too"
  },
  "attempt-fence-after-lock": {
    file: model,
    from: "if (row?.attempt !== one.attempt) continue",
    to: "if (row === undefined) continue",
    rare: "the owner alone changes attempts, and does not record one twice at the same time"
  },
  "epoch-fence": {
    file: model,
    from: "row?.attempt === attempt && transaction.get(model.shards, String(shard))?.epoch === epoch",
    to: "row?.attempt === attempt"
  },
  "epoch-bump": { file: model, from: "const epoch = row.epoch + 1", to: "const epoch = row.epoch" },
  "claim-without-recheck": {
    file: model,
    from: 'if (row === "locked" || row === undefined || !isFree(row)) continue',
    to: 'if (row === "locked" || row === undefined) continue'
  }
}

const root = new URL("../../", import.meta.url)

/** Plants a bug in all modules that are loaded from now on. */
export const plant = (name: string): void => {
  const bugs = { ...plantedBugs, ...approvalBugs }
  const bug = bugs[name]
  if (bug === undefined) throw new Error(`No bug ${name}. There are: ${Object.keys(bugs).join(", ")}`)
  const url = new URL(bug.file, root).href
  const text = readFileSync(fileURLToPath(url), "utf8")
  if (text.split(bug.from).length !== 2) throw new Error(`${bug.file} does not contain once: ${bug.from}`)
  registerHooks({
    load: (loaded, context, next) => {
      const result = next(loaded, context)
      return loaded === url ? { ...result, source: text.replace(bug.from, () => bug.to) } : result
    }
  })
}
