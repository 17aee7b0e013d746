import {
  Clock,
  Context,
  Data,
  DateTime,
  Duration,
  Effect,
  Exit,
  Layer,
  Metric,
  Redacted,
  Schema
} from "effect"
import { SqlClient } from "effect/sql"
import * as oauth from "oauth4webapi"
import { createHmac, randomBytes } from "node:crypto"
import { CONSOLE_PATH } from "../../api/Console.ts"
import { monotonicMillis } from "../concurrency/monotonicMillis.ts"
import type { SingleSignOnSettings } from "../../domain/identity/SingleSignOnSettings.ts"
import { Egress } from "../egress/Egress.ts"
import { signInFailures } from "../observability/metricDefinitions.ts"
import { StoreClock } from "../store/StoreClock.ts"
import { People, type Admission, type VerifiedPerson } from "../identity/People.ts"
import { type HttpFetch, makeBoundedFetch } from "./SingleSignOn/boundedFetch.ts"
import {
  hasGroupsAndEmail,
  lacksClaims,
  personOf,
  unreadableClaims,
  withUserinfo
} from "./SingleSignOn/claims.ts"
import {
  KeysUnavailable,
  type LogoutTarget,
  makeLogoutKeys,
  PUBLIC_KEY_ALGORITHMS,
  verifyLogoutToken
} from "./SingleSignOn/logoutToken.ts"
import { makeProviderMetadata } from "./SingleSignOn/providerMetadata.ts"
import { readMetadata } from "./SingleSignOn/readMetadata.ts"
import { makeClientAuthentication } from "./SingleSignOn/clientAuthentication.ts"

/** Path that starts a sign-in. */
export const SIGN_IN_PATH = `${CONSOLE_PATH}/single-sign-on`

/** Path to which the identity provider sends logout tokens. */
export const LOGOUT_PATH = `${CONSOLE_PATH}/single-sign-on/logout`

/** Path to which the identity provider sends the browser back. */
export const CALLBACK_PATH = `${CONSOLE_PATH}/single-sign-on/callback`

/** How long a person has to sign in at the provider. */
export const SIGN_IN_LIFETIME: Duration.Duration = Duration.minutes(10)

/** Shortest time between two reads of the provider's keys that an unknown key causes. */
const KEY_REFRESH_MILLIS = 5_000

/** Longest session ID of the provider. */
const MAX_SID = 255

/** Difference of the clocks that is accepted. */
const CLOCK_TOLERANCE_SECONDS = 60

/** Most groups of a refused person, and characters of a group or subject, in the log. */
const MAX_LOGGED_GROUPS = 20
const MAX_LOGGED_TEXT = 200

/** The token endpoint did not authenticate this service. */
class ClientRefused extends Error {}
const INVALID_CLIENT = "invalid_client"

/** Log texts for refusals of authenticated people. */
const refusals = {
  NoAccess: "no rule of COUNTERSIGN_OIDC_ACCESS has one of their groups",
  Blocked: "an administrator has blocked them",
  Full: "the organization has too many people",
  OtherDomain: "they have no verified email address of COUNTERSIGN_OIDC_EMAIL_DOMAINS"
} as const
type Refusal = keyof typeof refusals

/** Why a sign-in failed, in words for the person who tries to sign in. */
export class SignInFailed extends Data.TaggedError("SignInFailed")<{
  readonly reason: "expired" | "refused" | "unavailable" | "invalid" | "domain" | "access" | "full"
  readonly detail: string
}> {}

/** A sign-in in progress, as the browser's cookie keeps it. Nothing of it is stored on the service. */
interface PendingSignIn {
  /** The value of the cookie. */
  readonly cookie: Redacted.Redacted
  /** Where the browser goes: the provider's page. */
  readonly location: string
}

/** A completed sign-in. */
export interface CompletedSignIn {
  readonly admission: Exclude<Admission, { readonly _tag: "NoAccess" | "Full" | "Blocked" }>
  /** The provider's session (`sid`), which its logout names; null: it stated none. */
  readonly providerSession: string | null
  /** The path of the console to show. */
  readonly returnTo: string
}

/** A logout at the provider. */
interface ProviderLogout extends Omit<LogoutTarget, "issuedAt"> {
  readonly issuer: string
  /** Later sessions are unaffected, so a replayed token is harmless. */
  readonly begunBy: DateTime.Utc
}

/**
 * Single sign-on of the console by OpenID Connect: Authorization Code with PKCE (RFC 7636), with `state`, `nonce` and the issuer in the
 * response (RFC 9207). The three secrets of a sign-in are derived from one random value, which only the browser keeps, in a cookie that
 * other sites cannot set: a response that another browser began is not accepted.
 */
export class SingleSignOn extends Context.Service<
  SingleSignOn,
  {
    /** The provider's name; null: single sign-on is off. */
    readonly provider: string | null
    /** Begins a sign-in. `organization`: the chosen one. `returnTo`: a path of the console. */
    readonly begin: (options: {
      readonly returnTo: string
      readonly organization: string | undefined
    }) => Effect.Effect<PendingSignIn, SignInFailed>
    /** Completes a sign-in from the provider's response, which is the query of the callback. */
    readonly complete: (
      cookie: Redacted.Redacted,
      response: URLSearchParams
    ) => Effect.Effect<CompletedSignIn, SignInFailed>
    /** Verifies a logout token of the provider's back channel. */
    readonly verifyLogout: (token: string) => Effect.Effect<ProviderLogout, SignInFailed>
  }
>()("countersign/server/console/SingleSignOn") {
  static readonly layer = (settings: {
    readonly publicUrl: string
    readonly singleSignOn: SingleSignOnSettings | undefined
  }) =>
    Layer.effect(
      SingleSignOn,
      Effect.andThen(
        // Prometheus sees an increase only from an existing value, so the counters exist before their first increment.
        Effect.forEach(["provider", "person"] as const, (reason) => Metric.update(signInFailures(reason), 0)),
        settings.singleSignOn === undefined
          ? Effect.succeed(
              SingleSignOn.of({
                provider: null,
                begin: () => isOff,
                complete: () => isOff,
                verifyLogout: () => isOff
              })
            )
          : make(settings.singleSignOn, settings.publicUrl)
      )
    )
}

const isOff = Effect.fail(
  new SignInFailed({ reason: "access", detail: "Single sign-on is off. Sign in with an API key." })
)

const unavailable = new SignInFailed({
  reason: "unavailable",
  detail: "The identity provider did not respond. Try again, or sign in with an API key."
})

const expired = new SignInFailed({
  reason: "expired",
  detail:
    "The sign-in took too long, was completed before, or began in another browser or at another address of the console. Sign in again."
})

const invalid = new SignInFailed({
  reason: "invalid",
  detail:
    "The identity provider's response was not accepted. Sign in again; the service's log has the reason."
})

/** The failures of authenticated people. */
const refused: Readonly<Record<Refusal, SignInFailed>> = {
  NoAccess: new SignInFailed({
    reason: "access",
    detail:
      "Your account has no access here. Ask an administrator which group of your identity provider gives it."
  }),
  Blocked: new SignInFailed({
    reason: "access",
    detail: "An administrator has blocked your access. Ask them."
  }),
  Full: new SignInFailed({
    reason: "full",
    detail: "The organization has too many people. Ask an administrator."
  }),
  OtherDomain: new SignInFailed({
    reason: "domain",
    detail: "Your account has no verified email address of a domain that may sign in here."
  })
}

/** The content of the cookie. */
const Pending = Schema.fromJsonString(
  Schema.Struct({
    /** The random value, in base64url. */
    secret: Schema.String.check(Schema.isPattern(/^[\w-]{43}$/u)),
    /** When the sign-in began, in epoch milliseconds. */
    began: Schema.Int,
    return_to: Schema.String,
    organization: Schema.optionalKey(Schema.String)
  })
)
type Pending = typeof Pending.Type

/** One of the secrets of a sign-in. None of them reveals another. */
const derive = (secret: string, purpose: "state" | "nonce" | "verifier"): string =>
  createHmac("sha256", secret).update(purpose).digest("base64url")

/** Paths of the console that a sign-in may lead to: never another origin, because `/console` stands before them. */
const RETURN_PATH = /^\/(?!\/)[\w\-./~?=&%+:,]{0,500}$/u

const safeReturnPath = (path: string): string => (RETURN_PATH.test(path) ? path : "/")

/** The side at fault for a failed sign-in; null: none, the person took too long or did not sign in. */
const faultOf: Readonly<Record<SignInFailed["reason"], "provider" | "person" | null>> = {
  unavailable: "provider",
  invalid: "provider",
  domain: "person",
  access: "person",
  full: "person",
  refused: null,
  expired: null
}

const countFailures = <A, R>(signIn: Effect.Effect<A, SignInFailed, R>): Effect.Effect<A, SignInFailed, R> =>
  Effect.tapError(signIn, ({ reason }) => {
    const fault = faultOf[reason]
    return fault === null ? Effect.void : Metric.update(signInFailures(fault), 1)
  })

const make = Effect.fnUntraced(function* (settings: SingleSignOnSettings, publicUrl: string) {
  const egress = yield* Egress
  const people = yield* People
  const sql = yield* SqlClient.SqlClient
  const storeClock = yield* StoreClock
  const clock = yield* Clock.Clock
  const now = () => monotonicMillis(clock)
  const issuer = new URL(settings.issuer)
  const redirectUri = publicUrl + CALLBACK_PATH
  const isInsecure = issuer.protocol === "http:"
  /** Hosts of the provider besides the issuer's, which passed the rules for addresses. */
  const vetted = new Set<string>()
  const fetchBounded: HttpFetch = makeBoundedFetch(
    (url) => url.origin === issuer.origin || vetted.has(url.origin)
  )
  const options = { [oauth.customFetch]: fetchBounded, [oauth.allowInsecureRequests]: isInsecure }
  const client: oauth.Client = {
    client_id: settings.clientId,
    [oauth.clockTolerance]: CLOCK_TOLERANCE_SECONDS
  }
  const authenticationOf = yield* makeClientAuthentication(settings.client)

  const call = <A>(what: string, request: () => Promise<A>) =>
    Effect.tryPromise({
      try: request,
      catch: (error) => ({ error: describe(error), failure: failureOf(error) })
    }).pipe(
      Effect.catch(({ error, failure }) =>
        Effect.andThen(
          Effect.logWarning(
            error === INVALID_CLIENT
              ? "Single sign-on: the identity provider refused the service's client ID, secret or key"
              : `Single sign-on: ${what} failed`,
            { error }
          ),
          Effect.fail(failure)
        )
      )
    )

  /**
   * The endpoints that the provider names. Endpoints on the issuer's host may have any address, because the operator chose it; others
   * must have public addresses, like webhooks.
   */
  const vetEndpoints = Effect.fnUntraced(function* (server: oauth.AuthorizationServer) {
    const named = [server.token_endpoint, server.jwks_uri, server.userinfo_endpoint]
    for (const text of named) {
      if (text === undefined) continue
      const url = URL.parse(text)
      if (url === null) return yield* invalid
      if (url.origin === issuer.origin || vetted.has(url.origin)) continue
      yield* egress.vet(url.origin + url.pathname).pipe(
        Effect.tapError(({ reason }) =>
          Effect.logWarning("Single sign-on: an endpoint of the identity provider is refused", {
            host: url.host,
            reason
          })
        ),
        Effect.mapError(({ reason }) => (reason === "LookupFailed" ? unavailable : invalid))
      )
      vetted.add(url.origin)
    }
  })

  const findServer = makeProviderMetadata({
    read: call("reading the provider's metadata", () => readMetadata(issuer, fetchBounded)).pipe(
      Effect.tap(vetEndpoints)
    ),
    now
  })

  let keys:
    | {
        readonly server: oauth.AuthorizationServer
        readonly copy: oauth.AuthorizationServer
        readonly readAt: number
      }
    | undefined

  /** Checks the signature of the ID token. The provider's keys are read again, at most every five seconds, if none of them fits. */
  const checkSignature = Effect.fnUntraced(function* (server: oauth.AuthorizationServer, response: Response) {
    if (keys?.server !== server) keys = { server, copy: { ...server }, readAt: now() }
    const check = (copy: oauth.AuthorizationServer) => async () => {
      await oauth.validateApplicationLevelSignature(copy, response, options)
    }
    const first = yield* Effect.exit(Effect.tryPromise(check(keys.copy)))
    if (Exit.isSuccess(first)) return
    if (now() - keys.readAt >= KEY_REFRESH_MILLIS) {
      // The provider may have new keys, for example after a restart. The library caches keys by this object.
      keys = { server, copy: { ...server }, readAt: now() }
    }
    yield* call("checking the signature", check(keys.copy))
  })

  /** Reads the userinfo, which can be signed. */
  const readUserinfo = Effect.fnUntraced(function* (
    server: oauth.AuthorizationServer,
    { access_token }: oauth.TokenEndpointResponse,
    subject: string
  ) {
    const response = yield* call("reading the userinfo", () =>
      oauth.userInfoRequest(server, client, access_token, options)
    )
    const isSigned = response.headers.get("content-type")?.startsWith("application/jwt") === true
    // Algorithms accepted for a signed userinfo if the metadata lists none: public-key signatures only.
    const { userinfo_signing_alg_values_supported = PUBLIC_KEY_ALGORITHMS } = server
    const claims = yield* call("reading the userinfo", () =>
      oauth.processUserInfoResponse(
        { ...server, userinfo_signing_alg_values_supported },
        client,
        subject,
        response
      )
    )
    if (isSigned) yield* checkSignature(server, response)
    return claims
  })

  /** Exchanges the code, and returns the claims of the ID token, and missing ones from the userinfo endpoint. */
  const exchange = Effect.fnUntraced(function* (
    server: oauth.AuthorizationServer,
    { secret }: Pending,
    parameters: URLSearchParams
  ) {
    const response = yield* call("exchanging the code", () =>
      oauth.authorizationCodeGrantRequest(
        server,
        client,
        authenticationOf(server),
        parameters,
        redirectUri,
        derive(secret, "verifier"),
        options
      )
    )
    const tokens = yield* call("reading the token response", async () => {
      // This endpoint responds with 401 only if it does not accept the client (RFC 6749, section 5.2).
      if (response.status === 401) throw new ClientRefused()
      return oauth.processAuthorizationCodeResponse(server, client, response, {
        expectedNonce: derive(secret, "nonce"),
        requireIdToken: true
      })
    })
    yield* checkSignature(server, response)
    const claims = oauth.getValidatedIdTokenClaims(tokens)
    if (claims === undefined) return yield* invalid
    const { groupsClaim } = settings
    if (!lacksClaims(claims, groupsClaim) || server.userinfo_endpoint === undefined) return claims
    const reading = readUserinfo(server, tokens, claims.sub)
    // The address is stored as of each sign-in, and tells which keys are the same human being: only the name may be missing.
    const userinfo = yield* hasGroupsAndEmail(claims, groupsClaim)
      ? Effect.orElseSucceed(reading, () => ({}))
      : reading
    const complete = withUserinfo(claims, userinfo)
    for (const fault of unreadableClaims(complete, groupsClaim)) {
      yield* Effect.logWarning("Single sign-on: a claim cannot be read", fault)
    }
    return complete
  })

  /** Fails for a person whom the provider has authenticated. The log has the subject, and the claims that decided about the access. */
  const refuse = ({ groups, isEmailVerified, subject }: VerifiedPerson, refusal: Refusal) =>
    Effect.andThen(
      Effect.logWarning(`Single sign-on: a person was refused: ${refusals[refusal]}`, {
        subject: subject.slice(0, MAX_LOGGED_TEXT),
        groups: groups.slice(0, MAX_LOGGED_GROUPS).map((group) => group.slice(0, MAX_LOGGED_TEXT)),
        groups_claim: settings.groupsClaim,
        email_verified: isEmailVerified
      }),
      refused[refusal]
    )

  const hasAllowedDomain = ({ email }: VerifiedPerson): boolean =>
    settings.emailDomains?.includes((email ?? "").replace(/^.*@/su, "").toLowerCase()) ?? true

  const begin = Effect.fn("SingleSignOn.begin")(function* ({
    organization,
    returnTo
  }: {
    readonly returnTo: string
    readonly organization: string | undefined
  }) {
    const server = yield* findServer
    if (server.authorization_endpoint === undefined) return yield* invalid
    const secret = randomBytes(32).toString("base64url")
    const location = new URL(server.authorization_endpoint)
    if (location.protocol !== "https:" && !isInsecure) return yield* invalid
    const challenge = yield* Effect.promise(() =>
      oauth.calculatePKCECodeChallenge(derive(secret, "verifier"))
    )
    for (const [name, value] of Object.entries({
      client_id: settings.clientId,
      redirect_uri: redirectUri,
      response_type: "code",
      scope: settings.scopes,
      state: derive(secret, "state"),
      nonce: derive(secret, "nonce"),
      code_challenge: challenge,
      code_challenge_method: "S256"
    })) {
      location.searchParams.set(name, value)
    }
    const pending: Pending = {
      secret,
      began: yield* Clock.currentTimeMillis,
      return_to: safeReturnPath(returnTo),
      ...(organization === undefined ? {} : { organization })
    }
    const cookie = Buffer.from(Schema.encodeSync(Pending)(pending)).toString("base64url")
    return { cookie: Redacted.make(cookie, { label: "SignInCookie" }), location: location.toString() }
  })

  /** Records that the response to a sign-in is used. False: it was used before, on any replica. */
  const useOnce = Effect.fnUntraced(function* (state: string) {
    const now = yield* storeClock.now
    // Twice the lifetime: the clocks that measure it may differ.
    const before = DateTime.subtractDuration(now, Duration.times(SIGN_IN_LIFETIME, 2))
    yield* sql`DELETE FROM used_sign_ins WHERE used_at < ${DateTime.toDateUtc(before)}`
    const rows = yield* sql`
      INSERT INTO used_sign_ins (state, used_at)
      VALUES (${state}, ${DateTime.toDateUtc(now)})
      ON CONFLICT DO NOTHING
      RETURNING 1
    `
    return rows.length > 0
  }, Effect.orDie)

  const complete = Effect.fn("SingleSignOn.complete")(function* (
    cookie: Redacted.Redacted,
    response: URLSearchParams
  ) {
    const pending = yield* Schema.decodeUnknownEffect(Pending)(
      Buffer.from(Redacted.value(cookie), "base64url").toString()
    ).pipe(Effect.mapError(() => expired))
    // By the wall clock: another replica may have begun the sign-in.
    const age = Math.abs((yield* Clock.currentTimeMillis) - pending.began)
    if (age > Duration.toMillis(SIGN_IN_LIFETIME)) return yield* expired
    // A response to a sign-in that this browser did not begin.
    if (response.get("state") !== derive(pending.secret, "state")) return yield* expired
    const server = yield* findServer
    const parameters = yield* call("reading the response", async () =>
      oauth.validateAuthResponse(server, client, response, derive(pending.secret, "state"))
    )
    // Does not rely on the provider's record of used codes.
    if (!(yield* useOnce(derive(pending.secret, "state")))) return yield* expired
    const claims = yield* exchange(server, pending, parameters)
    const person = personOf(claims, settings)
    if (settings.emailDomains !== undefined && !person.isEmailVerified)
      return yield* refuse(person, "OtherDomain")
    const isAllowed = hasAllowedDomain(person)
    // Without a rule the access ends that the person had before.
    const admission = yield* people.admit(person, {
      rules: isAllowed ? settings.access : [],
      organization: pending.organization
    })
    if (!isAllowed) return yield* refuse(person, "OtherDomain")
    if (admission._tag === "NoAccess" || admission._tag === "Blocked" || admission._tag === "Full") {
      return yield* refuse(person, admission._tag)
    }
    const { sid } = claims
    const providerSession = typeof sid === "string" && sid.length <= MAX_SID ? sid : null
    return { admission, providerSession, returnTo: safeReturnPath(pending.return_to) }
  })

  const logoutKeys = makeLogoutKeys(fetchBounded)

  const verifyLogout = Effect.fn("SingleSignOn.verifyLogout")(function* (token: string) {
    // Without metadata the token cannot be refused: the provider is to send it again.
    const server = yield* Effect.mapError(findServer, () => unavailable)
    if (server.jwks_uri === undefined) return yield* invalid
    const keys = logoutKeys(server.jwks_uri)
    const now = yield* Clock.currentTimeMillis
    const { issuedAt, ...target } = yield* Effect.tryPromise(() =>
      verifyLogoutToken(token, {
        issuer: server.issuer,
        clientId: settings.clientId,
        keys,
        clockTolerance: CLOCK_TOLERANCE_SECONDS,
        now
      })
    ).pipe(
      // Anybody can send a token: a warning for each would let them fill the log.
      Effect.tapError(({ cause }) =>
        Effect.logDebug("Single sign-on: a logout token was refused", { error: describe(cause) })
      ),
      Effect.mapError(({ cause }) => (cause instanceof KeysUnavailable ? unavailable : invalid))
    )
    return {
      ...target,
      issuer: settings.issuer,
      begunBy: DateTime.makeUnsafe((issuedAt + CLOCK_TOLERANCE_SECONDS) * 1_000)
    }
  })

  return SingleSignOn.of({
    provider: settings.name,
    begin: (options) => countFailures(begin(options)),
    complete: (cookie, response) => countFailures(complete(cookie, response)),
    verifyLogout
  })
})

/** The code of an error, without the provider's own text. */
const describe = (error: unknown): string => {
  if (error instanceof oauth.AuthorizationResponseError || error instanceof oauth.ResponseBodyError) {
    return /^[\w.]{1,64}$/u.test(error.error) ? error.error : "error"
  }
  if (error instanceof ClientRefused) return INVALID_CLIENT
  const code = error instanceof Error && "code" in error ? String(error.code) : ""
  return `${error instanceof Error ? error.name : "error"} ${code}`.trim()
}

const failureOf = (error: unknown): SignInFailed => {
  if (error instanceof oauth.AuthorizationResponseError) {
    return new SignInFailed({
      reason: "refused",
      detail: `The identity provider refused the sign-in (${describe(error)}).`
    })
  }
  const cause = error instanceof oauth.OperationProcessingError ? error.cause : undefined
  if (cause instanceof Response && cause.status >= 500) return unavailable
  // A code that was used before, or that is too old.
  if (error instanceof oauth.ResponseBodyError) return error.error === "invalid_grant" ? expired : invalid
  return error instanceof ClientRefused ||
    error instanceof oauth.OperationProcessingError ||
    error instanceof oauth.UnsupportedOperationError
    ? invalid
    : unavailable
}
