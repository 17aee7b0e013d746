import { Layer } from "effect"
import { OrganizationLimits } from "../admission/OrganizationLimits.ts"
import { LimitUse } from "../observability/LimitUse.ts"
import { Audit } from "../identity/Audit.ts"
import { Datasets } from "../tasks/Datasets.ts"
import { StoredUsage } from "../identity/StoredUsage.ts"
import { Organizations } from "../identity/Organizations.ts"
import type { StoreSettings } from "../config/Settings.ts"
import { KnownSecrets } from "../secrets/KnownSecrets.ts"
import { CompiledSchemas } from "../tasks/CompiledSchemas.ts"
import { StoreClock } from "../store/StoreClock.ts"
import { layerMatchingStore } from "./layerStore.ts"

/** The services for datasets, on an existing database with this version's schema. For the command line. */
export const layerDatasets = (store: StoreSettings) =>
  Datasets.layer.pipe(
    Layer.provide([CompiledSchemas.layer, Audit.layer, KnownSecrets.layerPolicyOnly, StoredUsage.layer]),
    Layer.provide([OrganizationLimits.layerNone, LimitUse.layerNone]),
    Layer.provideMerge(Organizations.layer),
    Layer.provide(StoreClock.layer),
    Layer.provide(layerMatchingStore(store))
  )
