import { Effect, Layer } from "effect"
import type { JWK } from "jose"
import { Countersign } from "../../src/testing/index.ts"
import { type IdentityProvider, identityProvider } from "./identityProvider.ts"
import { cloneDatabase } from "./postgres.ts"
import { startFront } from "./startFront.ts"

const rules = [
  { organization: "acme", group: "admins", preset: "admin" },
  { organization: "acme", group: "approvers", preset: "reviewer", groups: ["finance"] },
  { organization: "globex", group: "globex", preset: "reviewer" },
  { organization: "not there", group: "approvers", preset: "admin" }
]

/** Runs a test with a provider and a service that trusts it. */
export const withProvider = <A, E, R>(
  use: (provider: IdentityProvider, url: string) => Effect.Effect<A, E, R>,
  environment: Record<string, string> = {},
  /** The public key of the client, whose private key the environment has. */
  clientKey?: JWK
) =>
  Effect.scoped(
    Effect.gen(function* () {
      // The provider must know the service's address before it starts.
      const { forwardTo, url } = yield* startFront
      const provider = yield* identityProvider(`${url}/console/single-sign-on/callback`, clientKey)
      const databaseUrl = yield* cloneDatabase
      provider.accounts.set("ada", {
        name: "Ada Lovelace",
        email: "ada@example.com",
        email_verified: true,
        groups: ["approvers"]
      })
      return yield* Effect.gen(function* () {
        const countersign = yield* Countersign
        forwardTo(countersign.url)
        yield* countersign.client({}, "acme")
        yield* countersign.client({}, "globex")
        return yield* Effect.provideService(use(provider, url), Countersign, { ...countersign, url })
      }).pipe(
        Effect.provide(
          Layer.fresh(
            Countersign.layer({
              databaseUrl,
              environment: {
                COUNTERSIGN_PUBLIC_URL: url,
                COUNTERSIGN_OIDC_ISSUER: provider.issuer,
                COUNTERSIGN_OIDC_CLIENT_ID: provider.clientId,
                ...(clientKey === undefined ? { COUNTERSIGN_OIDC_CLIENT_SECRET: provider.clientSecret } : {}),
                COUNTERSIGN_OIDC_SCOPES: "openid profile email groups",
                COUNTERSIGN_OIDC_ACCESS: JSON.stringify(rules),
                ...environment
              }
            })
          ),
          { local: true }
        )
      )
    })
  )
