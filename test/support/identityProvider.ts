import { Effect, type Scope } from "effect"
import { createServer, type Server } from "node:http"
import { createPrivateKey, generateKeyPairSync, sign } from "node:crypto"
import { type Configuration, Provider } from "oidc-provider"
import { listenOnFreePort } from "./listenOnFreePort.ts"

/** An account of the provider. Tests change it to change what the next sign-in states. */
export interface Account {
  name?: string
  email?: string
  email_verified?: boolean
  groups?: ReadonlyArray<string>
}

/** An OpenID provider on loopback: `oidc-provider`, whose page signs in whoever it is told to, without a question. */
export interface IdentityProvider {
  readonly issuer: string
  readonly clientId: string
  readonly clientSecret: string
  readonly accounts: Map<string, Account>
  /** The account that signs in next. */
  signsIn: string
  /** Replaces parameters of the next redirect to the callback. */
  tamper: ((parameters: URLSearchParams) => void) | undefined
  /** Changes claims of ID tokens before they are signed again, or how they are signed; undefined: as the provider made them. */
  forge: Readonly<Record<string, unknown>> | "unsigned" | "foreign signature" | undefined
  readonly requests: Array<string>
  /** Stops answering, and answers again as a new process with new keys. */
  readonly stop: () => Promise<void>
  readonly restart: (configuration?: Partial<Configuration>) => Promise<void>
}

const signingKey = () => ({
  ...generateKeyPairSync("ec", { namedCurve: "P-256" }).privateKey.export({ format: "jwk" }),
  use: "sig",
  alg: "ES256",
  kid: crypto.randomUUID()
})

/** Starts a provider for one client. */
export const identityProvider = (redirectUri: string): Effect.Effect<IdentityProvider, never, Scope.Scope> =>
  Effect.acquireRelease(
    Effect.promise(() => start(redirectUri)),
    (provider) => Effect.promise(() => provider.stop())
  )

const start = async (redirectUri: string): Promise<IdentityProvider> => {
  const clientId = "countersign"
  const clientSecret = "s".repeat(32)
  const accounts = new Map<string, Account>()
  let handle: ((...args: Parameters<ReturnType<Provider["callback"]>>) => unknown) | undefined
  const requests: Array<string> = []
  const server: Server = createServer((request, response) => {
    requests.push(`${request.method} ${(request.url ?? "").split("?", 1)[0]}`)
    if (handle === undefined) {
      response.socket?.destroy()
      return
    }
    void handle(request, response)
  })
  const port = await listenOnFreePort(server)
  const issuer = `http://127.0.0.1:${port}`

  /** An ID token with other claims, signed by the provider's key unless `forge` says otherwise. */
  const forged = (token: string, key: ReturnType<typeof signingKey>): string => {
    const [header = "", payload = ""] = token.split(".")
    const parse = (part: string): Record<string, unknown> =>
      JSON.parse(Buffer.from(part, "base64url").toString())
    const encode = (part: unknown) => Buffer.from(JSON.stringify(part)).toString("base64url")
    const { forge } = state
    const changes = typeof forge === "object" ? forge : {}
    const unsigned = forge === "unsigned"
    const content = `${encode({ ...parse(header), ...(unsigned ? { alg: "none" } : {}) })}.${encode({ ...parse(payload), ...changes })}`
    const signer = forge === "foreign signature" ? signingKey() : key
    const signature = sign("sha256", Buffer.from(content), {
      key: createPrivateKey({ key: signer, format: "jwk" }),
      dsaEncoding: "ieee-p1363"
    })
    return `${content}.${unsigned ? "" : signature.toString("base64url")}`
  }

  const restart = async (configuration: Partial<Configuration> = {}) => {
    const key = signingKey()
    const provider = new Provider(issuer, {
      clients: [
        {
          client_id: clientId,
          client_secret: clientSecret,
          redirect_uris: [redirectUri],
          id_token_signed_response_alg: "ES256"
        }
      ],
      cookies: { keys: ["a key of the test"] },
      jwks: { keys: [key] },
      claims: {
        openid: ["sub"],
        profile: ["name"],
        email: ["email", "email_verified"],
        groups: ["groups"]
      },
      scopes: ["openid", "profile", "email", "groups"],
      conformIdTokenClaims: false,
      pkce: { required: () => true },
      features: { devInteractions: { enabled: false } },
      interactions: { url: (_context, interaction) => `/interaction/${interaction.uid}` },
      findAccount: (_context, id) => ({
        accountId: id,
        claims: () => ({ sub: id, ...accounts.get(id) })
      }),
      ...configuration
    })
    provider.use(async (context, next) => {
      if (!context.path.startsWith("/interaction/")) {
        await next()
        const body: unknown = context.body
        if (state.forge !== undefined && typeof body === "object" && body !== null && "id_token" in body) {
          context.body = { ...body, id_token: forged(String(body.id_token), key) }
        }
        const location = context.response.get("location") ?? ""
        if (state.tamper !== undefined && location.startsWith(redirectUri)) {
          const url = new URL(location)
          state.tamper(url.searchParams)
          context.redirect(url.toString())
        }
        return
      }
      const { params, prompt } = await provider.interactionDetails(context.req, context.res)
      if (prompt.name === "login") {
        await provider.interactionFinished(context.req, context.res, {
          login: { accountId: state.signsIn, remember: false }
        })
      } else {
        const grant = new provider.Grant({
          accountId: state.signsIn,
          clientId: String(params["client_id"])
        })
        grant.addOIDCScope(String(params["scope"]))
        await provider.interactionFinished(context.req, context.res, {
          consent: { grantId: await grant.save() }
        })
      }
      context.respond = false
    })
    handle = provider.callback()
  }
  await restart()
  const state: IdentityProvider = {
    issuer,
    clientId,
    clientSecret,
    accounts,
    signsIn: "ada",
    tamper: undefined,
    forge: undefined,
    requests,
    stop: async () => {
      handle = undefined
      server.closeAllConnections()
    },
    restart
  }
  return state
}
