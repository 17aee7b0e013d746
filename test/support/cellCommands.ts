/** An installation whose commands run in this process, on files in memory. */
import { Context, Effect, Layer } from "effect"
import { SqlClient } from "effect/sql"
import { OrgId } from "../../src/domain/Ids.ts"
import { copyOrganization } from "../../src/server/cells/copyOrganization.ts"
import { exportOrganization, type ExportOptions } from "../../src/server/cells/exportOrganization.ts"
import type { LineWriter } from "../../src/server/cells/transfer/transferFile.ts"
import { Audit } from "../../src/server/identity/Audit.ts"
import { SecretBox } from "../../src/server/secrets/SecretBox.ts"
import { StoreClock } from "../../src/server/store/StoreClock.ts"
import { Countersign } from "../../src/testing/index.ts"
import { cloneDatabase } from "./postgres.ts"
import { seedEnvironment } from "./seedOneOfEach/seedOneOfEach.ts"

/** An installation, and what a command has of it. */
export const startCommandCell = Effect.gen(function* () {
  const databaseUrl = yield* cloneDatabase
  const context = yield* Layer.build(
    Layer.fresh(Countersign.layer({ databaseUrl, environment: seedEnvironment }))
  )
  const sql = Context.get(context, SqlClient.SqlClient)
  const command = yield* Layer.build(
    Audit.layer.pipe(
      Layer.provideMerge(StoreClock.layer),
      Layer.provideMerge(Layer.succeed(SqlClient.SqlClient, sql)),
      Layer.provideMerge(Layer.succeed(SecretBox, Context.get(context, SecretBox)))
    )
  )
  return {
    url: databaseUrl,
    sql,
    command: <A, E>(
      use: Effect.Effect<A, E, SqlClient.SqlClient | StoreClock | SecretBox | Audit>
    ): Effect.Effect<A, E> => Effect.provideContext(use, command),
    createOrganization: Effect.provideContext(
      Effect.flatMap(Countersign, ({ key }) => key({}, "acme")),
      context
    )
  }
})
/** An installation. */
export type CommandCell = Effect.Success<typeof startCommandCell>

/** The id of the organization. */
export const idOf = (cell: CommandCell) =>
  Effect.map(
    cell.sql<{ readonly org_id: string }>`SELECT org_id FROM organizations WHERE name = 'acme'`,
    (rows) => OrgId.make(rows[0]?.org_id ?? "")
  )

/** The state of its last move, and whether it is fenced. */
export const stateOf = (cell: CommandCell) =>
  Effect.map(
    cell.sql<{
      readonly state: string
      readonly is_fenced: boolean
    }>`SELECT state, is_fenced FROM organization_moves`,
    ([row]) => (row === undefined ? "none" : `${row.state} ${row.is_fenced ? "fenced" : "open"}`)
  )

/** The number of fence triggers. */
export const countFences = (cell: CommandCell) =>
  Effect.map(
    cell.sql<{
      readonly count: number
    }>`SELECT count(*)::int AS count FROM pg_trigger WHERE tgname LIKE 'moving%'`,
    ([row]) => row?.count
  )

/** A file in memory. */
export const makeFile = () => {
  const lines: Array<string> = []
  const writer: LineWriter = {
    write: async (line) => void lines.push(line),
    end: async () => undefined,
    abort: () => undefined,
    bytes: () => 0
  }
  return { lines, writer }
}

/** The key that files are made for; they are not encrypted here. */
export const TRANSFER_KEY = "cst1_test"

/** Exports the organization. Returns the lines of the file. */
export const exportFrom = Effect.fnUntraced(function* (
  cell: CommandCell,
  options: Partial<ExportOptions> = {}
) {
  const { lines, writer } = makeFile()
  yield* cell.command(
    exportOrganization({ org_id: yield* idOf(cell), name: "acme" }, writer, {
      transferKey: TRANSFER_KEY,
      ...options
    })
  )
  return lines
})

/** Copies the organization. Returns the lines of the file. */
export const copyFrom = Effect.fnUntraced(function* (cell: CommandCell) {
  const { lines, writer } = makeFile()
  yield* cell.command(copyOrganization({ org_id: yield* idOf(cell), name: "acme" }, writer, TRANSFER_KEY))
  return lines
})

/** The lines of a file; `last` runs before the last one. */
export async function* reading(
  lines: ReadonlyArray<string>,
  last: Effect.Effect<unknown, unknown> = Effect.void
) {
  yield* lines.slice(0, -1)
  await Effect.runPromise(last)
  yield* lines.slice(-1)
}
