import * as oauth from "oauth4webapi"
import type { HttpFetch } from "./boundedFetch.ts"

/** Reads the metadata of an identity provider (OpenID Connect Discovery 1.0), and checks that it is the issuer's. */
export const readMetadata = async (issuer: URL, fetch: HttpFetch): Promise<oauth.AuthorizationServer> => {
  const options = {
    [oauth.customFetch]: fetch,
    [oauth.allowInsecureRequests]: issuer.protocol === "http:"
  }
  return oauth.processDiscoveryResponse(issuer, await oauth.discoveryRequest(issuer, options))
}
