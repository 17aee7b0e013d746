import { PgClient } from "@effect/sql-pg"
import { Effect, type Scope } from "effect"
import type { SqlClient } from "effect/sql"

/**
 * After the first read-only error, other statements of the same transaction, such as its ROLLBACK, get this long before the connections
 * close. Further errors meanwhile close nothing again.
 */
const CLOSE_AFTER_MILLIS = 250

/** What all pools of this process for one database have in common. */
export interface ConnectionGroup {
  /** How the shared pool connects. */
  readonly shared: PgClient.PgPoolConfig
  /** How to connect without a connection pooler. */
  readonly direct: PgClient.PgPoolConfig
  /** Whether the shared pool leads through a connection pooler. */
  readonly usesPooler: boolean
  /** The settings that every session must have, by name. */
  readonly settings: Readonly<Record<string, string>>
  /**
   * Closes every connection of every pool a moment later. A server that turned out to be read-only is a standby, as after a failover whose
   * DNS entry was still the old one: new connections find the primary, open ones never do.
   */
  readonly closeAll: () => void
  /** Adds a pool until the scope closes. */
  readonly addPool: (close: () => void) => Effect.Effect<void, never, Scope.Scope>
}

/** Makes the group of a shared pool. */
export const makeConnectionGroup = (
  options: Pick<ConnectionGroup, "shared" | "direct" | "usesPooler" | "settings">
): Effect.Effect<ConnectionGroup> =>
  Effect.sync(() => {
    const pools = new Set<() => void>()
    let timer: NodeJS.Timeout | undefined
    return {
      ...options,
      closeAll: () => {
        timer ??= setTimeout(() => {
          timer = undefined
          for (const close of pools) close()
        }, CLOSE_AFTER_MILLIS).unref()
      },
      addPool: (close) =>
        Effect.acquireRelease(
          Effect.sync(() => void pools.add(close)),
          () => Effect.sync(() => void pools.delete(close))
        )
    }
  })

/** The property of a client that has its group. */
const GROUP = Symbol.for("countersign/server/store/Database/ConnectionGroup")

interface GroupedClient {
  readonly [GROUP]: ConnectionGroup
}

const isGrouped = (client: object): client is GroupedClient => GROUP in client

/** Adds a client to a group. */
export const inGroup = <Client extends SqlClient.SqlClient>(client: Client, group: ConnectionGroup): Client =>
  Object.assign(client, { [GROUP]: group })

/** The group of a client; for one that `Database.layer` did not make, a group of its own. */
export const groupOf = (client: SqlClient.SqlClient): ConnectionGroup =>
  isGrouped(client) ? client[GROUP] : ungrouped(isPgClient(client) ? client.config : {})

const ungrouped = (config: PgClient.PgPoolConfig): ConnectionGroup => ({
  shared: config,
  direct: config,
  usesPooler: false,
  settings: {},
  closeAll: () => undefined,
  addPool: () => Effect.void
})

const isPgClient = (client: SqlClient.SqlClient): client is PgClient.PgClient => PgClient.TypeId in client
