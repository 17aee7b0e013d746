import { Console, Effect, type Option, Result, Schema, Stream } from "effect"
import { digestAt, type VerifiedChain, verifyEntry } from "../../domain/identity/AuditChain.ts"
import { AuditCheckpoint, ChainedAuditEntry } from "../../domain/identity/ChainedAuditEntry.ts"
import type { OrgId } from "../../domain/Ids.ts"
import { AuditChain } from "../../server/identity/AuditChain.ts"
import { Organizations } from "../../server/identity/Organizations.ts"
import { layerAuditChain } from "../../server/main/layerKeys.ts"
import { readSettings } from "../environment.ts"
import { withProgress } from "../progress.ts"
import { readLines } from "../readLines.ts"
import { waitForDrain } from "../stdout.ts"

/** The longest line of an export or of checkpoints, in characters. */
const MAX_LINE = 1024 * 1024

/** The most checkpoints that one verification compares. */
const MAX_CHECKPOINTS = 100_000

/** Runs with the audit chain of the configured database; an embedded one that is not running is started and stopped. */
const withChain = <A, E>(
  organization: string,
  use: (chain: AuditChain["Service"], org_id: OrgId) => Effect.Effect<A, E>
) =>
  Effect.flatMap(readSettings, ({ settings }) =>
    Effect.provide(
      Effect.gen(function* () {
        const org_id = yield* (yield* Organizations).findByName(organization)
        return yield* use(yield* AuditChain, org_id)
      }),
      layerAuditChain(settings.store)
    )
  )

const encodeEntry = Schema.encodeEffect(Schema.toCodecJson(ChainedAuditEntry))
const encodeCheckpoint = Schema.encodeEffect(Schema.toCodecJson(AuditCheckpoint))
const decodeEntry = Schema.decodeUnknownEffect(Schema.fromJsonString(Schema.toCodecJson(ChainedAuditEntry)))
const decodeCheckpoint = Schema.decodeUnknownEffect(
  Schema.fromJsonString(Schema.toCodecJson(AuditCheckpoint))
)

/** `audit export` */
export const exportLog = Effect.fnUntraced(function* (flags: { readonly org: string }) {
  let entries = 0
  yield* withProgress({ unit: "entries", hasOutput: true }, (report) =>
    withChain(flags.org, (chain, org_id) =>
      Stream.runForEach(chain.exportFor(org_id, 0), (entry) =>
        encodeEntry(entry).pipe(
          Effect.flatMap((encoded) => Console.log(JSON.stringify(encoded))),
          Effect.andThen(waitForDrain()),
          Effect.tap(() => Effect.sync(() => report(++entries)))
        )
      )
    )
  )
})

/** `audit checkpoint` */
export const printCheckpoint = Effect.fnUntraced(function* (flags: { readonly org: string }) {
  const checkpoint = yield* withChain(flags.org, (chain, org_id) => chain.checkpointFor(org_id))
  yield* Console.log(JSON.stringify(yield* encodeCheckpoint(checkpoint)))
})

/** The export differs from the entries that the service wrote, or cannot be compared with the checkpoints. */
class AuditLogAltered extends Schema.TaggedError<AuditLogAltered>()("AuditLogAltered", {
  message: Schema.String
}) {}

const altered = (message: string) => new AuditLogAltered({ message })

/** `audit verify` */
export const verifyExport = Effect.fnUntraced(function* (flags: {
  readonly file: string
  readonly checkpoints: Option.Option<string>
}) {
  const checkpoints = flags.checkpoints._tag === "None" ? [] : yield* readCheckpoints(flags.checkpoints.value)
  const byPosition = Map.groupBy(checkpoints, ({ position }) => position)
  const met = new Set<AuditCheckpoint>()
  const chain = yield* Stream.runFoldEffect(
    readLines(flags.file, MAX_LINE),
    (): VerifiedChain | undefined => undefined,
    (verified, line) =>
      Effect.gen(function* () {
        const entry = yield* decodeEntry(line).pipe(
          Effect.mapError(() => altered(`Line ${(verified?.count ?? 0) + 1} is no entry of an audit log.`))
        )
        const next = verifyEntry(verified, entry)
        if (Result.isFailure(next)) return yield* altered(next.failure)
        // The digest before the first entry is also known: the position that retention deleted last.
        for (const position of verified === undefined
          ? [entry.position - 1, entry.position]
          : [entry.position]) {
          for (const checkpoint of byPosition.get(position) ?? []) {
            if (checkpoint.org_id !== entry.org_id) continue
            if (checkpoint.digest !== digestAt(entry, position)) {
              return yield* altered(`The log differs from the checkpoint at position ${position}.`)
            }
            met.add(checkpoint)
          }
        }
        return next.success
      })
  )
  const [first, last] = [chain?.first.position ?? 0, chain?.last.position ?? 0]
  const unmet = checkpoints.filter(
    (checkpoint) => !met.has(checkpoint) && (chain === undefined || checkpoint.org_id === chain.last.org_id)
  )
  const missing = unmet.find(({ position }) => position > last)
  if (missing !== undefined) {
    return yield* altered(
      `The log ends at position ${last}, before the checkpoint at position ${missing.position}: its newest entries are missing.`
    )
  }
  if (chain === undefined) return yield* Console.log("The log has no entries.")
  yield* Console.log(
    `Verified ${chain.count} entries of ${chain.last.org_id}, positions ${first} to ${last}, and ${met.size} of ` +
      `${checkpoints.length} checkpoints.`
  )
  if (met.size < checkpoints.length) {
    yield* Console.error(
      "The other checkpoints are of other organizations or of entries past their retention."
    )
  }
})

const readCheckpoints = (file: string) =>
  readLines(file, MAX_LINE).pipe(
    Stream.filter((line) => line.trim() !== ""),
    Stream.take(MAX_CHECKPOINTS + 1),
    Stream.mapEffect((line) =>
      Effect.mapError(decodeCheckpoint(line), () => altered(`${file} has a line that is no checkpoint.`))
    ),
    Stream.runCollect,
    Effect.filterOrFail(
      ({ length }) => length <= MAX_CHECKPOINTS,
      () => altered(`${file} has more than ${MAX_CHECKPOINTS} checkpoints: verify them in several files.`)
    )
  )
