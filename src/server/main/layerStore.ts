import { Array as Arr, Effect, Layer, Schema } from "effect"
import * as Database from "../store/Database.ts"
import { requireSameSchema } from "../store/Database/schemaVersion.ts"
import { EmbeddedPostgres, embeddedStoreExists } from "../store/EmbeddedPostgres.ts"
import { loadOrCreateMasterKey } from "../secrets/MasterKeyFile.ts"
import { listUsedKeyIds } from "../secrets/MasterKeys.ts"
import { SecretBox } from "../secrets/SecretBox.ts"
import type { StoreSettings } from "../config/Settings.ts"

/**
 * The store's client and the ring of keys that seals secrets in it: an external PostgreSQL with the keys of the configuration, or the
 * embedded one, whose key is made beside its data unless the configuration gives one.
 */
export const layerStore = (store: StoreSettings) =>
  store.kind === "external"
    ? Layer.mergeAll(Database.layer({ url: store.url }), SecretBox.layer({ masterKeys: store.masterKeys }))
    : Layer.unwrap(
        Effect.gen(function* () {
          const { url } = yield* EmbeddedPostgres
          const database = Database.layer({ url })
          const used = Effect.provide(listUsedKeyIds, database)
          const masterKeys = store.masterKeys ?? Arr.of(yield* loadOrCreateMasterKey(store.dataDir, used))
          return Layer.mergeAll(database, SecretBox.layer({ masterKeys }))
        })
      ).pipe(Layer.provide(EmbeddedPostgres.layer({ dataDir: store.dataDir })))

/** There is no embedded store where the settings have it. */
export class StoreMissing extends Schema.TaggedError<StoreMissing>()("StoreMissing", {
  dataDir: Schema.String
}) {
  override get message(): string {
    return `there is no store in ${this.dataDir}: set DATABASE_URL or COUNTERSIGN_DATA_DIR`
  }
}

/** The same for a store that is to be there: in the wrong directory none is made. */
export const layerExistingStore = (store: StoreSettings) =>
  Layer.unwrap(
    Effect.gen(function* () {
      if (store.kind === "embedded" && !(yield* embeddedStoreExists(store.dataDir))) {
        return yield* new StoreMissing({ dataDir: store.dataDir })
      }
      return layerStore(store)
    })
  )

/** A store that is there, of this version's schema: for commands that are no reason to make or to migrate one. */
export const layerMatchingStore = (store: StoreSettings) =>
  Layer.effectDiscard(requireSameSchema).pipe(Layer.provideMerge(layerExistingStore(store)))
