import { Console, DateTime, Effect, Option, Stream } from "effect"
import { SqlClient } from "effect/sql"
import type { OrgId } from "../../domain/Ids.ts"
import { copyOrganization } from "../../server/cells/copyOrganization.ts"
import { exportOrganization } from "../../server/cells/exportOrganization.ts"
import { abortMove, activateMove, commitMove, finishMove } from "../../server/cells/finishMove.ts"
import { importOrganization } from "../../server/cells/importOrganization.ts"
import { listCopies, listMoves, MoveRefused } from "../../server/cells/moveState.ts"
import { makeTransferKey, parseTransferKey } from "../../server/cells/transfer/TransferKey.ts"
import {
  FileUnavailable,
  type LineWriter,
  openWriter,
  readFile
} from "../../server/cells/transfer/transferFile.ts"
import { Organizations } from "../../server/identity/Organizations.ts"
import { layerCell } from "../../server/main/layerKeys.ts"
import { SecretBox } from "../../server/secrets/SecretBox.ts"
import { errnoCode } from "../../server/store/errnoCode.ts"
import { readSettings } from "../environment.ts"
import { describeFileFailure, type FileFailed, fileFailed } from "../fileFailure.ts"
import { formatTable } from "../formatTable.ts"
import { withProgress } from "../progress.ts"
import { readLines } from "../readLines.ts"

/** Runs on the configured database; an embedded one that is not running is started and stopped. */
const onCell = <A, E, R>(use: Effect.Effect<A, E, R>) =>
  Effect.flatMap(readSettings, ({ settings }) => Effect.provide(use, layerCell(settings.store)))

const formatCount = (count: number): string => count.toLocaleString("en")
const formatSeconds = (millis: number): string => `${(millis / 1000).toFixed(1)} s`

/** Longest line with a code. */
const MAX_CODE = 1_000

/** A code from an argument, or for `-` from the first line of standard input: arguments are visible to other users of the machine. */
const readCode = (argument: string) =>
  argument === "-"
    ? Effect.map(Stream.runHead(readLines("-", MAX_CODE)), (line) => Option.getOrElse(line, () => "").trim())
    : Effect.succeed(argument)

/** `org prepare` */
export const prepare = () => onCell(Effect.flatMap(SecretBox, (box) => Console.log(makeTransferKey(box))))

interface FileFlags {
  readonly org: string
  readonly for: string
  readonly to: string
}

/** Why the file of `--to` was not created. */
const whyNotCreated = (file: string, error: unknown): string =>
  errnoCode(error) === undefined
    ? `Could not create ${file}: ${error instanceof Error ? error.message : String(error)}.`
    : describeFileFailure(file, error, "write")

/** Names the file in the failure of a system call on it. */
const namingFile =
  (file: string, access: "read" | "write") =>
  <A, E, R>(self: Effect.Effect<A, E, R>): Effect.Effect<A, E | FileFailed, R> =>
    Effect.mapError(self, (error) =>
      error instanceof FileUnavailable && errnoCode(error.cause) !== undefined
        ? fileFailed(file, error.cause, access)
        : error
    )

/** Writes a file of an organization for a transfer key. */
const writeFile = Effect.fnUntraced(function* <A, E, R>(
  flags: FileFlags,
  write: (
    organization: { readonly org_id: OrgId; readonly name: string },
    writer: LineWriter
  ) => Effect.Effect<A, E, R>
) {
  const transferKey = parseTransferKey(flags.for)
  if (Option.isNone(transferKey)) {
    return yield* new MoveRefused({
      message: "The transfer key is malformed. Use the output of countersign org prepare."
    })
  }
  return yield* onCell(
    Effect.gen(function* () {
      const org_id = yield* (yield* Organizations).findByName(flags.org)
      return yield* Effect.acquireUseRelease(
        // Before the organization is frozen, and before the codes of an earlier export are discarded.
        Effect.try({
          try: () => openWriter(flags.to, transferKey.value),
          catch: (error) =>
            new MoveRefused({ message: `${whyNotCreated(flags.to, error)} Nothing was changed.` })
        }),
        (writer) => namingFile(flags.to, "write")(write({ org_id, name: flags.org }, writer)),
        (writer) => Effect.sync(writer.abort)
      )
    })
  )
})

/** `org copy` */
export const copyTo = Effect.fnUntraced(function* (flags: FileFlags) {
  const { bytes, rows } = yield* withProgress({ unit: "rows", hasOutput: false }, (report) =>
    writeFile(flags, (organization, writer) => copyOrganization(organization, writer, flags.for, report))
  )
  yield* Console.error(
    `Copied ${formatCount(rows)} rows of ${flags.org}, ${formatCount(bytes)} bytes. The organization works as before. ` +
      "Import the file in the other installation, then export what changes until then with --since-copy."
  )
})

/** `org export` */
export const exportTo = Effect.fnUntraced(function* (
  flags: FileFlags & { readonly sinceCopy: Option.Option<string> }
) {
  const sinceCopy = Option.isNone(flags.sinceCopy) ? undefined : yield* readCode(flags.sinceCopy.value)
  const { bytes, frozenMillis, isRepeated, removed, rows } = yield* withProgress(
    { unit: "rows", hasOutput: false },
    (onProgress) =>
      writeFile(flags, (organization, writer) =>
        exportOrganization(organization, writer, {
          transferKey: flags.for,
          onProgress,
          ...(sinceCopy === undefined ? {} : { sinceCopy })
        })
      )
  )
  yield* Console.error(
    `Exported ${formatCount(rows)} rows of ${flags.org}` +
      (sinceCopy === undefined
        ? ""
        : ` and the keys of ${formatCount(removed)} that were deleted or changed since the copy`) +
      ` in ${formatSeconds(frozenMillis)}, ${formatCount(bytes)} bytes. ` +
      (isRepeated
        ? "The organization has moved, and the file has the codes of its last export. Import it in the other installation."
        : "The organization is frozen. Import the file in the other installation, or run countersign org abort.")
  )
})

/** `org import` */
export const importFrom = Effect.fnUntraced(function* (flags: { readonly file: string }) {
  const imported = yield* withProgress({ unit: "rows", hasOutput: false }, (report) =>
    onCell(
      Effect.flatMap(SecretBox, (box) => importOrganization(readFile(flags.file, box), report)).pipe(
        namingFile(flags.file, "read")
      )
    )
  )
  const { isCopy, isRepeated, name } = imported
  const receiptOf = isCopy
    ? "code for --since-copy of countersign org export in the other installation"
    : "receipt"
  yield* Console.error(
    isRepeated
      ? `${isCopy ? `The copy of ${name}` : name} is imported already. Its ${receiptOf}:`
      : isCopy
        ? `Imported ${formatCount(imported.rows)} rows of a copy of ${name}. It is not active, and an export must complete it. The ${receiptOf}:`
        : `Imported ${formatCount(imported.rows)} rows of ${imported.name}. It is not active yet. ` +
          "The receipt, for countersign org commit in the other installation:"
  )
  // The code alone goes to stdout, so that a script can capture it.
  yield* Console.log(imported.receipt)
})

/** `org commit` */
export const commit = Effect.fnUntraced(function* (flags: {
  readonly org: string
  readonly receipt: string
  readonly movedTo: Option.Option<string>
}) {
  const receipt = yield* readCode(flags.receipt)
  const code = yield* onCell(commitMove(flags.org, receipt, Option.getOrNull(flags.movedTo)))
  yield* Console.error(
    `${flags.org} belongs to the other installation now. The code that activates it there, with countersign org activate:`
  )
  yield* Console.log(code)
})

/** `org activate` */
export const activate = Effect.fnUntraced(function* (flags: {
  readonly org: string
  readonly release: string
}) {
  const release = yield* readCode(flags.release)
  yield* onCell(
    activateMove(flags.org, release, (code) =>
      Effect.andThen(
        Console.error(
          `${flags.org} is active here. The code that deletes the old copy, with countersign org finish in the other installation:`
        ),
        Console.log(code)
      )
    )
  )
})

/** `org finish` */
export const finish = Effect.fnUntraced(function* (flags: {
  readonly org: string
  readonly activation: string
}) {
  const activation = yield* readCode(flags.activation)
  const rows = yield* withProgress({ unit: "rows deleted", hasOutput: false }, (report) =>
    onCell(finishMove(flags.org, activation, report))
  )
  yield* Console.log(`Deleted ${formatCount(rows)} rows of ${flags.org}, which has moved.`)
})

/** `org abort` */
export const abort = Effect.fnUntraced(function* (flags: { readonly org: string }) {
  const result = yield* onCell(abortMove(flags.org))
  yield* Console.log(
    result === "uncopied"
      ? `The copy of ${flags.org} cannot be completed any more. In the other installation, countersign org abort deletes it.`
      : result === "active"
        ? `${flags.org} is active here again. What was exported cannot be activated any more.`
        : `Deleted the imported copy of ${flags.org}. To import it again, use the same files, a copy before its export, or export it again.`
  )
})

/** `org moves` */
export const list = () =>
  onCell(
    Effect.flatMap(SqlClient.SqlClient, (sql) =>
      Effect.flatMap(Effect.all([listMoves(sql), listCopies(sql)]), ([moves, copies]) =>
        Console.log(
          formatTable([
            ["ORGANIZATION", "STATE", "SINCE", "ROWS", "MOVED TO"],
            ...moves.map((move) => [
              move.name,
              move.state,
              DateTime.formatIso(move.started_at),
              move.row_count === null ? "" : String(move.row_count),
              move.moved_to ?? ""
            ]),
            ...copies.map((copy) => [
              copy.name,
              "copy made",
              DateTime.formatIso(copy.created_at),
              String(copy.row_count),
              ""
            ])
          ])
        )
      )
    )
  )
