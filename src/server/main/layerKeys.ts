import { Layer } from "effect"
import { OrganizationLimits } from "../admission/OrganizationLimits.ts"
import { ApiKeys } from "../identity/ApiKeys.ts"
import { AuthenticationRefusals } from "../identity/AuthenticationRefusals.ts"
import { Audit } from "../identity/Audit.ts"
import { AuditChain } from "../identity/AuditChain.ts"
import { LimitUse } from "../observability/LimitUse.ts"
import * as MasterKeys from "../secrets/MasterKeys.ts"
import { Organizations } from "../identity/Organizations.ts"
import { Revocations } from "../identity/Revocations.ts"
import { VerificationLinks } from "../identity/VerificationLinks.ts"
import { VerificationPolicy } from "../identity/VerificationPolicy.ts"
import type { Settings, StoreSettings } from "../config/Settings.ts"
import { StoreClock } from "../store/StoreClock.ts"
import { layerMatchingStore, layerMatchingStoreWithoutKeys, layerReadOnlyStore } from "./layerStore.ts"

/** The database, and what its keys' email addresses need. */
type KeySettings = Pick<Settings, "store" | "verification">

/**
 * The services for API keys and organizations, without background workers and without email, on an existing database with this version's
 * schema. For the command line.
 */
export const layerKeys = ({ store, verification }: KeySettings) =>
  ApiKeys.layer.pipe(
    Layer.provide([Audit.layer, Revocations.layer()]),
    Layer.provideMerge(Organizations.layer),
    Layer.provide([
      StoreClock.layer,
      Layer.succeed(VerificationPolicy, verification),
      VerificationLinks.layerNone,
      OrganizationLimits.layerNone,
      LimitUse.layerNone,
      AuthenticationRefusals.layerNone
    ]),
    Layer.provide(layerMatchingStoreWithoutKeys(store))
  )

/** The hash chain of the audit log, on an existing database with this version's schema. For the command line. */
export const layerAuditChain = (store: StoreSettings) =>
  Layer.merge(AuditChain.layer, Organizations.layer).pipe(
    Layer.provide(StoreClock.layer),
    Layer.provide(layerMatchingStoreWithoutKeys(store))
  )

/** The database, its checked master keys and the audit log, for resealing the stored secrets. */
export const layerSecrets = (store: StoreSettings) =>
  Layer.merge(MasterKeys.layerCheckMasterKeys, Audit.layer).pipe(
    Layer.provide(StoreClock.layer),
    Layer.provideMerge(layerMatchingStore(store))
  )

/** The database and the verified master keys, for a check that changes nothing. */
export const layerVerifiedSecrets = (store: StoreSettings) =>
  Layer.effectDiscard(MasterKeys.verifyMasterKeys()).pipe(Layer.provideMerge(layerReadOnlyStore(store)))
