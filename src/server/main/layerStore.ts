import type { PgClient } from "@effect/sql-pg"
import { Array as Arr, Effect, Layer, Redacted, Schema } from "effect"
import { SqlClient } from "effect/sql"
import * as Database from "../store/Database.ts"
import * as DatabaseHealth from "../store/DatabaseHealth.ts"
import { requireUsableDatabase } from "../store/Database/preparePooler.ts"
import { hasTables, requireSameSchema } from "../store/Database/schemaVersion.ts"
import { EmbeddedPostgres, embeddedStoreExists } from "../store/EmbeddedPostgres.ts"
import { loadOrCreateMasterKey, masterKeyPath, readMasterKey } from "../secrets/MasterKeyFile.ts"
import { listUsedKeyIds } from "../secrets/MasterKeys.ts"
import { SecretBox } from "../secrets/SecretBox.ts"
import type { StoreSettings } from "../config/Settings.ts"

/** The database client, and the log of its outages. */
const layerDatabase = (options: Database.DatabaseOptions) =>
  DatabaseHealth.layer.pipe(Layer.provideMerge(Database.layer(options)))

/** The same for a database that must accept writes, and connections that no pooler shares between clients unless that is configured. */
const layerUsableDatabase = (options: Database.DatabaseOptions) =>
  Layer.effectDiscard(requireUsableDatabase).pipe(Layer.provideMerge(layerDatabase(options)))

/**
 * The database client and the key ring of its secrets: an external PostgreSQL with the configured master keys, or the embedded PostgreSQL,
 * whose master key is generated in the data directory unless one is configured. Creates a missing database or role if the settings allow it.
 */
export const layerStore = (
  store: StoreSettings
): Layer.Layer<PgClient.PgClient | SqlClient.SqlClient | SecretBox, StoreFailure> =>
  store.kind === "external"
    ? layerExternalStore(store)
    : Layer.unwrap(Effect.as(requireDatabase(store), layerEmbeddedStore(store)))

/**
 * The database client alone, for commands that need no secret: they run under accounts that cannot read the master key. Creates a missing
 * database or role if the settings allow it, and no master key.
 */
export const layerStoreWithoutKeys = (
  store: StoreSettings
): Layer.Layer<PgClient.PgClient | SqlClient.SqlClient, StoreFailure> =>
  store.kind === "external"
    ? layerExternalDatabase(store)
    : Layer.unwrap(Effect.as(requireDatabase(store), layerEmbeddedDatabase(store)))

/**
 * {@link layerStoreWithoutKeys} for `migrate`, which creates the tables of an empty database in any case. It also creates the master key if it
 * creates an embedded database: the key of an installation that root starts is root's.
 */
export const layerBootstrapStore = (
  store: StoreSettings
): Layer.Layer<PgClient.PgClient | SqlClient.SqlClient, StoreFailure> =>
  store.kind === "external"
    ? layerExternalDatabase({ ...store, create: true })
    : Layer.unwrap(
        Effect.map(embeddedStoreExists(store.dataDir), (exists) =>
          exists ? layerStoreWithoutKeys(store) : layerStore(store)
        )
      )

/** Why there is no database. */
type StoreFailure =
  | DatabaseMissing
  | Layer.Error<ReturnType<typeof layerExternalStore>>
  | Layer.Error<ReturnType<typeof layerEmbeddedStore>>

type EmbeddedStore = Extract<StoreSettings, { readonly kind: "embedded" }>

/** Fails if the data directory has no database and must not get one. */
export const requireDatabase = Effect.fnUntraced(function* ({ create, dataDir }: EmbeddedStore) {
  if (!create && !(yield* embeddedStoreExists(dataDir))) return yield* new DatabaseMissing({ dataDir })
})

/** The configured database does not exist, or is empty, and must not be created. */
export class DatabaseMissing extends Schema.TaggedError<DatabaseMissing>()("DatabaseMissing", {
  /** The data directory; null: the database of `DATABASE_URL`. */
  dataDir: Schema.NullOr(Schema.String)
}) {
  override get message(): string {
    return this.dataDir === null
      ? "the database of DATABASE_URL has no tables of Countersign, and COUNTERSIGN_CREATE_DATABASE is false: correct DATABASE_URL, or create the tables with countersign migrate"
      : `no database in ${this.dataDir}, and COUNTERSIGN_CREATE_DATABASE is false: mount the volume that has it, or correct COUNTERSIGN_DATA_DIR; to create one, start once with COUNTERSIGN_CREATE_DATABASE=true`
  }
}

/** Fails if a database has no tables. */
const requireTables = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  if (!(yield* hasTables(sql))) return yield* new DatabaseMissing({ dataDir: null })
})

type ExternalStore = Extract<StoreSettings, { readonly kind: "external" }>

const layerExternalDatabase = ({ create, directUrl, url }: ExternalStore) =>
  Layer.effectDiscard(create ? Effect.void : requireTables).pipe(
    Layer.provideMerge(layerUsableDatabase({ url, directUrl }))
  )

const layerExternalStore = (store: ExternalStore) =>
  Layer.merge(layerExternalDatabase(store), SecretBox.layer({ masterKeys: store.masterKeys }))

const layerEmbeddedDatabase = (store: EmbeddedStore) =>
  Layer.unwrap(Effect.map(EmbeddedPostgres, ({ url }) => layerDatabase({ url }))).pipe(
    Layer.provide(EmbeddedPostgres.layer(store))
  )

const layerEmbeddedStore = (store: EmbeddedStore) =>
  Layer.unwrap(
    Effect.gen(function* () {
      const used = Effect.provide(listUsedKeyIds, yield* Effect.context<SqlClient.SqlClient>())
      const masterKeys = store.masterKeys ?? Arr.of(yield* loadOrCreateMasterKey(store.dataDir, used))
      return SecretBox.layer({ masterKeys })
    })
  ).pipe(Layer.provideMerge(layerEmbeddedDatabase(store)))

/** An existing database and its key ring. A missing master key is not created. */
const layerStoreWithPresentKeys = (
  store: StoreSettings
): Layer.Layer<PgClient.PgClient | SqlClient.SqlClient | SecretBox, StoreFailure | MasterKeyAbsent> =>
  store.kind === "external"
    ? layerExternalStore({ ...store, create: true })
    : Layer.unwrap(
        Effect.gen(function* () {
          const key = store.masterKeys ?? (yield* readMasterKey(store.dataDir))
          if (key === undefined) return yield* new MasterKeyAbsent({ file: masterKeyPath(store.dataDir) })
          return SecretBox.layer({ masterKeys: Redacted.isRedacted(key) ? Arr.of(key) : key })
        })
      ).pipe(Layer.provideMerge(layerEmbeddedDatabase(store)))

/** The data directory has a database, but no master key yet. */
export class MasterKeyAbsent extends Schema.TaggedError<MasterKeyAbsent>()("MasterKeyAbsent", {
  file: Schema.String
}) {
  override get message(): string {
    return `the master key ${this.file} does not exist: start the service once, which creates it if no secret was sealed yet, or restore the file from a backup`
  }
}

/** The configured data directory contains no database. */
export class StoreMissing extends Schema.TaggedError<StoreMissing>()("StoreMissing", {
  dataDir: Schema.String
}) {
  override get message(): string {
    return `no database in ${this.dataDir}: set DATABASE_URL or COUNTERSIGN_DATA_DIR as the service has it; only serve and migrate create a database`
  }
}

/** Fails if the data directory has no database: a wrong one must not get a new database. An external database may be empty. */
const requireStore = Effect.fnUntraced(function* (store: StoreSettings) {
  if (store.kind === "embedded" && !(yield* embeddedStoreExists(store.dataDir))) {
    return yield* new StoreMissing({ dataDir: store.dataDir })
  }
})

/** {@link layerStore} for an existing database. */
const layerExistingStore = (store: StoreSettings) =>
  Layer.unwrap(Effect.as(requireStore(store), layerStore({ ...store, create: true })))

const layerSameSchema = Layer.effectDiscard(requireSameSchema)

/** An existing database with this version's schema, for commands that must neither create nor migrate one. */
export const layerMatchingStore = (store: StoreSettings) =>
  layerSameSchema.pipe(Layer.provideMerge(layerExistingStore(store)))

/** {@link layerMatchingStore} without the master keys. */
export const layerMatchingStoreWithoutKeys = (store: StoreSettings) =>
  layerSameSchema.pipe(
    Layer.provideMerge(
      Layer.unwrap(Effect.as(requireStore(store), layerStoreWithoutKeys({ ...store, create: true })))
    )
  )

/** {@link layerMatchingStore} for a command that only reads. */
export const layerReadOnlyStore = (store: StoreSettings) =>
  layerSameSchema.pipe(
    Layer.provideMerge(Layer.unwrap(Effect.as(requireStore(store), layerStoreWithPresentKeys(store))))
  )
