import { Array as Arr, Effect, Layer, type Redacted, Schema } from "effect"
import * as Database from "../store/Database.ts"
import * as DatabaseHealth from "../store/DatabaseHealth.ts"
import { requireSameSchema } from "../store/Database/schemaVersion.ts"
import { EmbeddedPostgres, embeddedStoreExists } from "../store/EmbeddedPostgres.ts"
import { loadOrCreateMasterKey } from "../secrets/MasterKeyFile.ts"
import { listUsedKeyIds } from "../secrets/MasterKeys.ts"
import { SecretBox } from "../secrets/SecretBox.ts"
import type { StoreSettings } from "../config/Settings.ts"

/** The database client, and the log of its outages. */
const layerDatabase = (url: Redacted.Redacted) =>
  DatabaseHealth.layer.pipe(Layer.provideMerge(Database.layer({ url })))

/**
 * The database client and the key ring of its secrets: an external PostgreSQL with the configured master keys, or the embedded PostgreSQL,
 * whose master key is generated in the data directory unless one is configured.
 */
export const layerStore = (store: StoreSettings) =>
  store.kind === "external"
    ? Layer.mergeAll(layerDatabase(store.url), SecretBox.layer({ masterKeys: store.masterKeys }))
    : Layer.unwrap(
        Effect.gen(function* () {
          const { url } = yield* EmbeddedPostgres
          const database = layerDatabase(url)
          const used = Effect.provide(listUsedKeyIds, database)
          const masterKeys = store.masterKeys ?? Arr.of(yield* loadOrCreateMasterKey(store.dataDir, used))
          return Layer.mergeAll(database, SecretBox.layer({ masterKeys }))
        })
      ).pipe(Layer.provide(EmbeddedPostgres.layer(store)))

/** The configured data directory contains no database. */
export class StoreMissing extends Schema.TaggedError<StoreMissing>()("StoreMissing", {
  dataDir: Schema.String
}) {
  override get message(): string {
    return `no database in ${this.dataDir}: set DATABASE_URL or COUNTERSIGN_DATA_DIR`
  }
}

/** `layerStore` for an existing database: a wrong data directory fails instead of getting a new database. */
export const layerExistingStore = (store: StoreSettings) =>
  Layer.unwrap(
    Effect.gen(function* () {
      if (store.kind === "embedded" && !(yield* embeddedStoreExists(store.dataDir))) {
        return yield* new StoreMissing({ dataDir: store.dataDir })
      }
      return layerStore(store)
    })
  )

/** An existing database with this version's schema, for commands that must neither create nor migrate one. */
export const layerMatchingStore = (store: StoreSettings) =>
  Layer.effectDiscard(requireSameSchema).pipe(Layer.provideMerge(layerExistingStore(store)))
