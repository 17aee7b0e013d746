import { Effect, type Scope } from "effect"
import { createServer, type Server } from "node:http"
import { createHmac, createPrivateKey, generateKeyPairSync, sign } from "node:crypto"
import type { JWK } from "jose"
import { type Configuration, Provider } from "oidc-provider"
import { listenOnFreePort } from "./listenOnFreePort.ts"

/** An account of the provider. Tests change it to change what the next sign-in states. */
export interface Account {
  name?: string
  email?: string
  /** Some providers state it as text. */
  email_verified?: boolean | string
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
  /** Replaces members of the metadata; undefined: none. */
  metadata: Readonly<Record<string, unknown>> | undefined
  /** Path that answers 500; undefined: none. */
  failing: string | undefined
  readonly requests: Array<string>
  /** Sends a logout token of this session to its client, as when a person signs out at the provider. */
  readonly logOut: (subject: string, session: string) => Promise<void>
  /** Signs a token of any content, by the provider's key or by `signer`. */
  readonly signToken: (
    payload: Readonly<Record<string, unknown>>,
    signer?: "foreign" | "client secret" | "none"
  ) => string
  /** Stops answering, and answers again as a new process with new keys. */
  readonly stop: () => Promise<void>
  readonly restart: (
    configuration?: Partial<Configuration>,
    client?: Readonly<Record<string, unknown>>
  ) => Promise<void>
}

const signingKey = () => ({
  ...generateKeyPairSync("ec", { namedCurve: "P-256" }).privateKey.export({ format: "jwk" }),
  use: "sig",
  alg: "ES256",
  kid: crypto.randomUUID()
})

const ed25519Key = () => ({
  ...generateKeyPairSync("ed25519").privateKey.export({ format: "jwk" }),
  use: "sig",
  alg: "Ed25519",
  kid: crypto.randomUUID()
})

/** Starts a provider for one client. */
export const identityProvider = (
  redirectUri: string,
  /** The public key of a client that authenticates by signatures, instead of a secret. */
  clientKey?: JWK
): Effect.Effect<IdentityProvider, never, Scope.Scope> =>
  Effect.acquireRelease(
    Effect.promise(() => start(redirectUri, clientKey)),
    (provider) => Effect.promise(() => provider.stop())
  )

const start = async (redirectUri: string, clientKey: JWK | undefined): Promise<IdentityProvider> => {
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
    if (state.failing !== undefined && request.url?.startsWith(state.failing) === true) {
      response.writeHead(500).end()
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

  let current: { readonly provider: Provider; readonly key: ReturnType<typeof signingKey> } | undefined

  const signToken: IdentityProvider["signToken"] = (payload, signer) => {
    const encode = (part: unknown) => Buffer.from(JSON.stringify(part)).toString("base64url")
    const alg = signer === "none" ? "none" : signer === "client secret" ? "HS256" : "ES256"
    const kid = current?.key.kid
    const content = `${encode({ alg, typ: "logout+jwt", kid })}.${encode(payload)}`
    if (signer === "none") return `${content}.`
    if (signer === "client secret") {
      return `${content}.${createHmac("sha256", clientSecret).update(content).digest("base64url")}`
    }
    const key = signer === "foreign" ? signingKey() : (current?.key ?? signingKey())
    const signature = sign("sha256", Buffer.from(content), {
      key: createPrivateKey({ key, format: "jwk" }),
      dsaEncoding: "ieee-p1363"
    })
    return `${content}.${signature.toString("base64url")}`
  }

  const logOut: IdentityProvider["logOut"] = async (subject, session) => {
    const client: unknown = await current?.provider.Client.find(clientId)
    if (typeof client !== "object" || client === null || !("backchannelLogout" in client)) return
    if (typeof client.backchannelLogout === "function") await client.backchannelLogout(subject, session)
  }

  const restart: IdentityProvider["restart"] = async (configuration = {}, registration = {}) => {
    const key = signingKey()
    const provider = new Provider(issuer, {
      clients: [
        {
          client_id: clientId,
          ...(clientKey === undefined
            ? { client_secret: clientSecret }
            : { token_endpoint_auth_method: "private_key_jwt", jwks: { keys: [clientKey] } }),
          redirect_uris: [redirectUri],
          id_token_signed_response_alg: "ES256",
          backchannel_logout_uri: redirectUri.replace("/callback", "/logout"),
          backchannel_logout_session_required: true,
          ...registration
        }
      ],
      cookies: { keys: ["a key of the test"] },
      jwks: { keys: [key, ed25519Key()] },
      claims: {
        openid: ["sub"],
        profile: ["name"],
        email: ["email", "email_verified"],
        groups: ["groups"]
      },
      scopes: ["openid", "profile", "email", "groups"],
      conformIdTokenClaims: false,
      // Without the provider's own agent, which is of another version of undici than the one in use here.
      fetch: (url: string | URL | Request, init: RequestInit = {}) =>
        globalThis.fetch(url, {
          method: init.method ?? "GET",
          headers: init.headers ?? {},
          body: init.body ?? null,
          redirect: "manual"
        }),
      pkce: { required: () => true },
      features: { devInteractions: { enabled: false }, backchannelLogout: { enabled: true } },
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
        if (typeof body === "object" && context.path === "/.well-known/openid-configuration") {
          context.body = { ...body, ...state.metadata }
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
    current = { provider, key }
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
    metadata: undefined,
    failing: undefined,
    requests,
    logOut,
    signToken,
    stop: async () => {
      handle = undefined
      server.closeAllConnections()
    },
    restart
  }
  return state
}
