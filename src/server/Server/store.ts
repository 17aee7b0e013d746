import { Array as Arr, Effect, Layer } from "effect"
import * as Database from "../Database.ts"
import { EmbeddedPostgres } from "../EmbeddedPostgres.ts"
import { masterKeyOf } from "../MasterKeyFile.ts"
import { usedKeyIds } from "../MasterKeys.ts"
import { SecretBox } from "../SecretBox.ts"
import type { StoreSettings } from "../Settings.ts"

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
          const used = Effect.provide(usedKeyIds, database)
          const masterKeys = store.masterKeys ?? Arr.of(yield* masterKeyOf(store.dataDir, used))
          return Layer.mergeAll(database, SecretBox.layer({ masterKeys }))
        })
      ).pipe(Layer.provide(EmbeddedPostgres.layer({ dataDir: store.dataDir })))
