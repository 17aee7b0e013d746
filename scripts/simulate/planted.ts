/**
 * Bugs that are planted to see that the simulation finds them: a text of a source file is replaced while the file is
 * loaded, so that the checkout stays as it is.
 */
import { readFileSync } from "node:fs"
import { registerHooks } from "node:module"
import { fileURLToPath } from "node:url"

/** A planted bug: one line that is broken, or a few where each alone is a line of defence behind another. */
interface PlantedBug {
  readonly file: string
  readonly from: string
  readonly to: string
}

const engine = "src/server/delivery/Delivery"
const model = "scripts/simulate/delivery/DeliveryModel.ts"

export const plantedBugs: Readonly<Record<string, ReadonlyArray<PlantedBug>>> = {
  "lease-margin": [
    {
      file: `${engine}/Shards.ts`,
      from: "one.leaseUntil - now >= marginMillis",
      to: "true"
    }
  ],
  "lease-counted-from-answer": [
    {
      file: `${engine}/Shards.ts`,
      from: "leaseUntil = before + leaseMillis",
      to: "leaseUntil = monotonicMillis(clock) + leaseMillis"
    }
  ],
  "renewal-by-number": [
    {
      file: `${engine}/Shards.ts`,
      from: "if (beat.epochs.get(one.shard) === one.epoch)",
      to: "if (beat.epochs.has(one.shard))"
    }
  ],
  "start-by-number": [
    {
      file: `${engine}/Shards.ts`,
      from: "owned.get(one.shard) === one && !one.draining",
      to: "owned.has(one.shard) && !one.draining"
    }
  ],
  "release-with-open-attempts": [
    {
      file: `${engine}/Shards.ts`,
      from: ".filter((one) => one.draining && one.unfinished === 0)",
      to: ".filter((one) => one.draining)"
    }
  ],
  "no-renewal-after-refusal": [
    {
      file: `${engine}/Engine.ts`,
      from: "if (shards.owned.get(lane.shard) === lane.owned) balancer.confirm()",
      to: ""
    }
  ],
  "stale-reads": [
    {
      file: `${engine}/ReadTracker.ts`,
      from: "return entry !== undefined && entry.attempt >= attempt",
      to: "return entry !== undefined && entry.attempt > attempt + 1_000"
    }
  ],
  "reads-that-never-end": [
    {
      file: `${engine}/ReadTracker.ts`,
      from: "inFlight.delete(began)",
      to: "if (began % 100 > 0) inFlight.delete(began)"
    }
  ],
  "insert-is-no-read": [
    {
      file: `${engine}/Engine.ts`,
      from: "const end = dispatcher.beginRead()",
      to: "const end = () => {}"
    }
  ],
  "reads-of-lost-shards": [
    {
      file: `${engine}/Lanes.ts`,
      from: "if (readBeganAt < owned.claimedAt) return undefined",
      to: ""
    }
  ],
  "no-reread": [
    {
      file: `${engine}/Reader.ts`,
      from: "if (!again) return { shard, reread: watermark, watermark }",
      to: "if (now >= 0) return { shard, reread: watermark, watermark }"
    }
  ],
  "no-sweep": [
    {
      file: `${engine}/Reader.ts`,
      from: "while (left.length > 0) {",
      to: "while (left.length < 0) {"
    }
  ],
  "retry-of-unwritten": [
    {
      file: `${engine}/Finisher.ts`,
      from: 'verdict._tag === "RetryLater" && written.has(result.delivery.seq) ? now + verdict.delay : null',
      to: 'verdict._tag === "RetryLater" ? now + verdict.delay : null'
    }
  ],
  "hook-of-unwritten": [
    {
      file: `${engine}/Finisher.ts`,
      from: "\n    .filter(({ result }) => written.has(result.delivery.seq))",
      to: ""
    }
  ],
  "lost-lanes-kept": [
    {
      file: `${engine}/Lanes.ts`,
      from: "for (const lane of lanes.values()) if (!has(lane)) drop(lane)",
      to: ""
    }
  ],
  "slot-leak": [
    {
      file: `${engine}/Slots.ts`,
      from: "organization.running--",
      to: "if (isRetry(delivery)) organization.running--"
    }
  ],
  "place-in-line-lost": [
    {
      file: `${engine}/Slots.ts`,
      from: "if (this.#woken.delete(lane)) this.#returned.add(lane)\n    else",
      to: ""
    }
  ],
  "wake-up-lost": [
    {
      file: `${engine}/Dispatcher.ts`,
      from: "for (const waiting of slots.release(lane, delivery)) readyLanes.add(waiting)",
      to: "slots.release(lane, delivery)"
    }
  ],
  "attempt-fence": [
    {
      file: model,
      from: "return row?.attempt === attempt && model",
      to: "return row !== undefined && model"
    },
    {
      file: model,
      from: 'if (row === "locked" || row?.attempt !== one.attempt) {',
      to: 'if (row === "locked" || row === undefined) {'
    }
  ],
  "attempt-fence-after-lock": [
    {
      file: model,
      from: 'if (row === "locked" || row?.attempt !== one.attempt) {',
      to: 'if (row === "locked" || row === undefined) {'
    }
  ],
  "epoch-fence": [
    {
      file: model,
      from: "row?.attempt === attempt && model.#epoch(transaction, shard) === epoch",
      to: "row?.attempt === attempt"
    }
  ],
  "epoch-fence-of-health": [
    {
      file: model,
      from: "({ epoch, shard }) => model.#epoch(transaction, shard) === epoch",
      to: "() => true"
    }
  ],
  "epoch-bump": [{ file: model, from: "const epoch = row.epoch + 1", to: "const epoch = row.epoch" }],
  "claim-without-recheck": [
    {
      file: model,
      from: 'if (row === "locked" || row === undefined || row.epoch !== before.epoch) continue',
      to: 'if (row === "locked" || row === undefined) continue'
    }
  ]
}

const root = new URL("../../", import.meta.url)

/** The modules with a bug, by URL. */
export const withBug = (name: string): ReadonlyMap<string, string> => {
  const bug = plantedBugs[name]
  if (bug === undefined) throw new Error(`No bug ${name}. There are: ${Object.keys(plantedBugs).join(", ")}`)
  const sources = new Map<string, string>()
  for (const { file, from, to } of bug) {
    const url = new URL(file, root).href
    const text = sources.get(url) ?? readFileSync(fileURLToPath(url), "utf8")
    if (text.split(from).length !== 2) throw new Error(`${file} does not contain once: ${from}`)
    sources.set(
      url,
      text.replace(from, () => to)
    )
  }
  return sources
}

/** Plants a bug in all modules that are loaded from now on. */
export const plant = (name: string): void => {
  const sources = withBug(name)
  registerHooks({
    load: (loaded, context, next) => {
      const result = next(loaded, context)
      const source = sources.get(loaded)
      return source === undefined ? result : { ...result, source }
    }
  })
}
