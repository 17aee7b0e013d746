import { Layer } from "effect"
import { ApiKeys } from "../identity/ApiKeys.ts"
import { Audit } from "../identity/Audit.ts"
import * as MasterKeys from "../secrets/MasterKeys.ts"
import { Organizations } from "../identity/Organizations.ts"
import { Revocations } from "../identity/Revocations.ts"
import type { StoreSettings } from "../config/Settings.ts"
import { StoreClock } from "../store/StoreClock.ts"
import { layerMatchingStore, layerStore } from "./layerStore.ts"
import { layerMigrated } from "../store/Database/migrate.ts"

/** Keys and the organizations that they belong to. Nothing is delivered and no deadline kept. */
const layerKeysOf = ApiKeys.layer.pipe(
  Layer.provide([Audit.layer, Revocations.layer()]),
  Layer.provideMerge(Organizations.layer),
  Layer.provide(StoreClock.layer)
)

/** The keys of a store that is there and migrated, and no more: for the command line. */
export const layerKeys = (store: StoreSettings) => layerKeysOf.pipe(Layer.provide(layerMatchingStore(store)))

/** The same for who makes keys. Makes and migrates the store where need be, so that the first key can be made before the first start. */
export const layerBootstrapKeys = (store: StoreSettings) =>
  layerKeysOf.pipe(Layer.provide(layerMigrated), Layer.provide(layerStore(store)))

/** The store and its ring of master keys and no more, checked: for what turns over the secrets in it. */
export const layerSecrets = (store: StoreSettings) =>
  MasterKeys.layerCheckMasterKeys.pipe(Layer.provideMerge(layerMatchingStore(store)))
