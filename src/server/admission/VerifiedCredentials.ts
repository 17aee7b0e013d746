import { Context, Layer } from "effect"
import { LruCache } from "../concurrency/LruCache.ts"

/** Limits of the cache: entries, and bytes of credentials. */
const MAX_CREDENTIALS = 10_000
const MAX_BYTES = 2 * 2 ** 20

/**
 * The organizations of the credentials (headers `Authorization`) whose last authentication succeeded, by which requests
 * are paced before they are authenticated. Only credentials that exist get in: inventing them brings no share of the
 * event loop. It is not used to authenticate. The server of a process and its authentication share one.
 */
export class VerifiedCredentials extends Context.Service<
  VerifiedCredentials,
  {
    readonly organizationOf: (credential: string) => string | undefined
    readonly add: (credential: string, org_id: string) => void
    readonly remove: (credential: string) => void
  }
>()("countersign/server/admission/VerifiedCredentials") {
  static readonly layer = Layer.sync(VerifiedCredentials, () => makeVerifiedCredentials())
}

export const makeVerifiedCredentials = (): VerifiedCredentials["Service"] => {
  const cache = new LruCache<string>({ entries: MAX_CREDENTIALS, weight: MAX_BYTES })
  return {
    organizationOf: (credential) => cache.get(credential),
    add: (credential, org_id) => {
      if (cache.get(credential) !== org_id) cache.set(credential, org_id, credential.length)
    },
    remove: (credential) => void cache.delete(credential)
  }
}
