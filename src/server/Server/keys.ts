import { Layer } from "effect"
import { ApiKeys } from "../ApiKeys.ts"
import { Audit } from "../Audit.ts"
import { layerMigrated } from "../Database/migrate.ts"
import * as MasterKeys from "../MasterKeys.ts"
import { Organizations } from "../Organizations.ts"
import type { StoreSettings } from "../Settings.ts"
import { StoreClock } from "../StoreClock.ts"
import { layerStore } from "./store.ts"

/**
 * The keys of a store and no more: for the command line. Nothing is delivered and no deadline kept. Migrates a store that lacks
 * migrations, so that the first key can be made before the first start.
 */
export const layerKeys = (store: StoreSettings) =>
  ApiKeys.layer.pipe(
    Layer.provide(Layer.mergeAll(Organizations.layer, Audit.layer)),
    Layer.provide(StoreClock.layer),
    Layer.provide(layerMigrated),
    Layer.provide(layerStore(store))
  )

/** The store and its ring of master keys and no more, migrated and checked: for what turns over the secrets in it. */
export const layerSecrets = (store: StoreSettings) =>
  MasterKeys.layerChecked.pipe(Layer.provideMerge(layerMigrated), Layer.provideMerge(layerStore(store)))
