import { Layer } from "effect"
import { Audit } from "../Audit.ts"
import { Datasets } from "../Datasets.ts"
import { Organizations } from "../Organizations.ts"
import type { StoreSettings } from "../Settings.ts"
import { Shapes } from "../Shapes.ts"
import { StoreClock } from "../StoreClock.ts"
import { layerReadyStore } from "./store.ts"

/** The datasets of a store that is there and migrated, and its organizations, and no more: for the command line. */
export const layerDatasets = (store: StoreSettings) =>
  Datasets.layer.pipe(
    Layer.provide([Shapes.layer, Audit.layer]),
    Layer.provideMerge(Organizations.layer),
    Layer.provide(StoreClock.layer),
    Layer.provide(layerReadyStore(store))
  )
