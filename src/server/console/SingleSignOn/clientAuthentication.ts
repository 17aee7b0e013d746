/** How the service authenticates to the identity provider's token endpoint. */
import { Effect, Redacted } from "effect"
import * as oauth from "oauth4webapi"
import type { ClientCredential, ClientKeyAlgorithm } from "../../../domain/identity/SingleSignOnSettings.ts"

const importParameters: Record<ClientKeyAlgorithm, Algorithm | RsaHashedImportParams | EcKeyImportParams> = {
  RS256: { name: "RSASSA-PKCS1-v1_5", hash: "SHA-256" },
  ES256: { name: "ECDSA", namedCurve: "P-256" },
  EdDSA: { name: "Ed25519" }
}

const importKey = (pem: string, algorithm: ClientKeyAlgorithm): Promise<CryptoKey> =>
  crypto.subtle.importKey(
    "pkcs8",
    Buffer.from(pem.replaceAll(/-----[A-Z ]+-----|\s/gu, ""), "base64"),
    importParameters[algorithm],
    false,
    ["sign"]
  )

/** Makes the authentication for a provider's metadata. The key was checked when the settings were read. */
export const makeClientAuthentication = Effect.fnUntraced(function* (client: ClientCredential) {
  if (client._tag === "PrivateKey") {
    const { algorithm, keyId, pem } = client
    const key = yield* Effect.promise(() => importKey(Redacted.value(pem), algorithm))
    const authentication = oauth.PrivateKeyJwt(keyId === undefined ? key : { key, kid: keyId })
    return () => authentication
  }
  const secret = Redacted.value(client.secret)
  return ({ token_endpoint_auth_methods_supported: methods }: oauth.AuthorizationServer) =>
    // Basic is the default of the specification (OpenID Connect Discovery 1.0, section 3).
    methods === undefined || methods.includes("client_secret_basic")
      ? oauth.ClientSecretBasic(secret)
      : oauth.ClientSecretPost(secret)
})
