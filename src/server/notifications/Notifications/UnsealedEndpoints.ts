import { Effect, Redacted, Schema } from "effect"
import { EndpointId } from "../../../domain/Ids.ts"
import { makeSigningKey, type SigningKeys } from "../../../domain/delivery/WebhookSignature.ts"
import { LruCache } from "../../concurrency/LruCache.ts"
import type { DeliveryRef } from "../../delivery/Delivery.ts"
import type { SecretBox } from "../../secrets/SecretBox.ts"
import { endpointPlace } from "./rows.ts"

/** Endpoints whose unsealed URL and signing keys one replica caches. */
const MAX_CACHED_ENDPOINTS = 1_000

/** The columns of an endpoint that its requests depend on. */
export interface SealedEndpoint {
  /** The version of its row (`xmin`). */
  readonly version: string
  readonly url: Uint8Array
  readonly secret: Uint8Array
  /** The secret before a rotation, while it still signs. */
  readonly previousSecret: Uint8Array | null
  /** Whether the installation's key signs, too. */
  readonly publicSignature: boolean
}

/** An endpoint ready to be sent to. */
export interface UnsealedEndpoint {
  readonly url: string
  /** The host of the URL, without the port. Other endpoints may share it. */
  readonly host: string
  readonly keys: SigningKeys
}

interface CachedEndpoint extends UnsealedEndpoint {
  /** As last read; a row that changed only in other columns has a new version. */
  sealed: SealedEndpoint
}

/**
 * Unseals endpoints, through an LRU cache that compares the sealed bytes or the version of the row: a rotated secret is
 * never served from the cache.
 */
export const makeUnsealedEndpoints = (box: SecretBox["Service"]) => {
  const cache = new LruCache<CachedEndpoint>({ entries: MAX_CACHED_ENDPOINTS, weight: MAX_CACHED_ENDPOINTS })

  return {
    /** The cached endpoint of a delivery, if its sealed columns are unchanged. */
    get: ({ destination_id }: DeliveryRef, sealed: SealedEndpoint): UnsealedEndpoint | undefined => {
      const cached = cache.get(destination_id)
      if (cached === undefined || !equalSealed(cached.sealed, sealed)) return undefined
      cached.sealed = sealed
      return cached
    },

    /**
     * The cached endpoint of a delivery, if its row has this version. An endpoint that signs with a previous secret is not returned: when
     * that secret ends, its row does not change.
     */
    getVersion: ({ destination_id }: DeliveryRef, version: string): UnsealedEndpoint | undefined => {
      const cached = cache.get(destination_id)
      return cached?.sealed.version === version && cached.sealed.previousSecret === null ? cached : undefined
    },

    /** The host of an endpoint that was returned just now. */
    hostOf: ({ destination_id }: DeliveryRef): string | undefined => cache.get(destination_id)?.host,

    /** Removes an endpoint from the cache, so that its row is read before the next attempt. */
    evict: (destination_id: string): void => void cache.delete(destination_id),

    /** Unseals the endpoint of a delivery and caches it. Fails if a master key is missing or the columns are corrupt. */
    unseal: Effect.fnUntraced(function* (
      { destination_id, org_id }: Pick<DeliveryRef, "destination_id" | "org_id">,
      sealed: SealedEndpoint
    ) {
      const endpoint_id = yield* decodeEndpointId(destination_id)
      const signingKey = (column: "secret" | "previous_secret", bytes: Uint8Array) =>
        Effect.flatMap(box.unseal(endpointPlace(org_id, endpoint_id, column), bytes), (secret) =>
          Effect.fromResult(makeSigningKey(secret))
        )
      const url = yield* box.unseal(endpointPlace(org_id, endpoint_id, "url"), sealed.url)
      const current = yield* signingKey("secret", sealed.secret)
      const previous =
        sealed.previousSecret === null ? null : yield* signingKey("previous_secret", sealed.previousSecret)
      const endpoint: CachedEndpoint = {
        sealed,
        url: Redacted.value(url),
        // A name with a final dot is the same host.
        host: new URL(Redacted.value(url)).hostname.replace(/\.$/, ""),
        keys: { current, previous, ...(sealed.publicSignature ? { signPublicly: box.signPublicly } : {}) }
      }
      cache.set(destination_id, endpoint, 1)
      return endpoint
    })
  }
}

const decodeEndpointId = Schema.decodeUnknownEffect(EndpointId)

const equalSealed = (a: SealedEndpoint, b: SealedEndpoint): boolean =>
  a.publicSignature === b.publicSignature &&
  equalBytes(a.url, b.url) &&
  equalBytes(a.secret, b.secret) &&
  equalBytes(a.previousSecret, b.previousSecret)

const equalBytes = (a: Uint8Array | null, b: Uint8Array | null): boolean =>
  a === null || b === null ? a === b : Buffer.compare(a, b) === 0
