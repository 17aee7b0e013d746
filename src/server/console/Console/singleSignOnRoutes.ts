import { ByteSize, type Duration, Effect, Redacted } from "effect"
import { HttpIncomingMessage, HttpRouter, HttpServerRequest, HttpServerResponse } from "effect/http"
import { CONSOLE_PATH } from "../../../api/Console.ts"
import { PAGE_PARAMETER } from "../../../api/console/pageToken.ts"
import { ClientAddress } from "../../http/ClientAddress.ts"
import { People } from "../../identity/People.ts"
import { escapeHtml, plainPage } from "../../http/plainPage.ts"
import { RateLimits } from "../../admission/RateLimits.ts"
import { ConsoleSessions, SESSION_LIFETIME } from "../ConsoleSessions.ts"
import {
  CALLBACK_PATH,
  LOGOUT_PATH,
  type CompletedSignIn,
  SIGN_IN_LIFETIME,
  SIGN_IN_PATH,
  SignInFailed,
  SingleSignOn
} from "../SingleSignOn.ts"
import { cookieFor, isSameOrigin, sessionToken, splitToken } from "./browserRequest.ts"

/** Longest query of the callback: providers' codes are at most some KiB. */
const MAX_QUERY = 8 * 1024

/** Longest name of an organization in the query. */
const MAX_ORGANIZATION = 200

const statusOf: Record<SignInFailed["reason"], number> = {
  expired: 400,
  invalid: 400,
  refused: 403,
  domain: 403,
  access: 403,
  full: 403,
  unavailable: 503
}

const failurePage = ({ detail, reason }: SignInFailed) =>
  plainPage(
    statusOf[reason],
    "You are not signed in",
    `<p>${escapeHtml(detail)}</p>\n<p><a href="${CONSOLE_PATH}">Back to the sign-in page</a></p>`
  )

const NOT_STORED = { "cache-control": "no-store" }

/** Responses to a logout (OpenID Connect Back-Channel Logout 1.0, section 2.8). */
const refusedLogout = HttpServerResponse.jsonUnsafe(
  { error: "invalid_request", error_description: "Not a logout token of the identity provider." },
  { status: 400, headers: NOT_STORED }
)
const unavailableLogout = HttpServerResponse.jsonUnsafe(
  {
    error: "temporarily_unavailable",
    error_description: "The provider's keys cannot be read. Send it again."
  },
  { status: 503, headers: NOT_STORED }
)

const busyPage = (seconds: number) =>
  plainPage(
    429,
    "Too many requests",
    `<p>Too many sign-ins were tried from your network. Wait a moment, then try again.</p>`,
    { "retry-after": String(seconds) }
  )

const choicePage = (organizations: ReadonlyArray<string>, returnTo: string) =>
  plainPage(
    200,
    "Choose an organization",
    `<p>Your account has access to several.</p>\n<ul>${organizations
      .map((organization) => {
        const query = new URLSearchParams({ organization, return_to: returnTo }).toString()
        return `<li><a href="${SIGN_IN_PATH}?${escapeHtml(query)}">${escapeHtml(organization)}</a></li>`
      })
      .join("\n")}</ul>`
  )

/**
 * The routes of single sign-on. They are navigations, not requests of the page: the first leads to the provider, the second comes back from
 * there. `SameSite=Lax` lets a browser send the cookie of the sign-in with the second, which is a navigation from another site. The session
 * cookie that the second sets stays `Strict`, since the console reads it by requests of its own.
 */
export const layer = (publicUrl: string) =>
  HttpRouter.use((router) =>
    Effect.gen(function* () {
      const signOn = yield* SingleSignOn
      if (signOn.provider === null) return
      const sessions = yield* ConsoleSessions
      const people = yield* People
      const limits = yield* RateLimits
      const client = yield* ClientAddress
      const transport = publicUrl.startsWith("https:") ? "https" : "loopback"
      const signInCookie = (request: HttpServerRequest.HttpServerRequest) => {
        const { name, options } = cookieFor(transport, request)
        return { name: `${name}-sign-in`, options: { ...options, sameSite: "lax" } } as const
      }

      const queryOf = ({ url }: HttpServerRequest.HttpServerRequest) => {
        const query = url.split("?", 2)[1] ?? ""
        return new URLSearchParams(query.length > MAX_QUERY ? "" : query)
      }

      const setCookie = (
        response: HttpServerResponse.HttpServerResponse,
        one: ReturnType<typeof cookieFor> | ReturnType<typeof signInCookie>,
        value: string,
        maxAge: Duration.Input
      ) => Effect.orDie(HttpServerResponse.setCookie(response, one.name, value, { ...one.options, maxAge }))

      const redirect = (location: string) =>
        HttpServerResponse.redirect(location, {
          status: 303,
          headers: { "cache-control": "no-store", "referrer-policy": "no-referrer" }
        })

      const asPage = <R>(
        self: Effect.Effect<
          HttpServerResponse.HttpServerResponse,
          SignInFailed | { readonly _tag: "RATE_LIMITED"; readonly retry_after_seconds: number },
          R
        >
      ) =>
        Effect.matchEager(self, {
          onFailure: (failure) =>
            failure._tag === "SignInFailed" ? failurePage(failure) : busyPage(failure.retry_after_seconds),
          onSuccess: (response) => response
        })

      const begin = Effect.gen(function* () {
        const request = yield* HttpServerRequest.HttpServerRequest
        // A page of another site must not sign anyone in.
        if (!isSameOrigin(request, publicUrl)) {
          return yield* new SignInFailed({
            reason: "expired",
            detail: "Open the console at its own address and sign in there."
          })
        }
        yield* limits.admitKeyLookup(client.of(request))
        const query = queryOf(request)
        const organization = query.get("organization")?.slice(0, MAX_ORGANIZATION)
        const begun = yield* signOn.begin({ returnTo: query.get("return_to") ?? "/", organization })
        return yield* setCookie(
          redirect(begun.location),
          signInCookie(request),
          Redacted.value(begun.cookie),
          SIGN_IN_LIFETIME
        )
      })

      const open = Effect.fnUntraced(function* (
        request: HttpServerRequest.HttpServerRequest,
        { admission, providerSession, returnTo }: CompletedSignIn
      ) {
        if (admission._tag === "Choose") return choicePage(admission.organizations, returnTo)
        const { token } = yield* sessions.openFor(
          admission.ref,
          admission.name,
          { address: client.of(request), userAgent: request.headers["user-agent"] },
          providerSession
        )
        // The new cookie replaces the browser's old one, if the browser sends it.
        yield* sessions.close(sessionToken(request), Effect.void)
        const { cookie, page } = splitToken(transport, token)
        // A fragment is sent to no server. The page takes it out of its address.
        const fragment =
          page === undefined ? "" : `#${new URLSearchParams({ [PAGE_PARAMETER]: page }).toString()}`
        return yield* setCookie(
          redirect(`${CONSOLE_PATH}${returnTo}${fragment}`),
          cookieFor(transport, request),
          cookie,
          SESSION_LIFETIME
        )
      })

      const complete = Effect.gen(function* () {
        const request = yield* HttpServerRequest.HttpServerRequest
        yield* limits.admitKeyLookup(client.of(request))
        const value = Redacted.make(request.cookies[signInCookie(request).name] ?? "", {
          label: "SignInCookie"
        })
        return yield* open(request, yield* signOn.complete(value, queryOf(request)))
      })

      /** The provider's back channel: it has no cookie, and the token proves whom it comes from. */
      const logout = Effect.gen(function* () {
        const request = yield* HttpServerRequest.HttpServerRequest
        const body = new URLSearchParams(yield* request.text)
        const { begunBy, ...target } = yield* (
          signOn
            .verifyLogout(body.get("logout_token") ?? "")
            // Only refused tokens count: the provider may sign out many people at once.
            .pipe(Effect.tapError(() => limits.admitKeyLookup(client.of(request))))
        )
        for (const person of yield* people.identitiesOf(target)) {
          yield* sessions.endByProvider(person, { session: target.session, begunBy })
        }
        return HttpServerResponse.empty({ status: 200, headers: NOT_STORED })
      }).pipe(
        Effect.provideService(HttpIncomingMessage.MaxBodySize, ByteSize.kibibytes(32)),
        Effect.catchTag("RATE_LIMITED", ({ retry_after_seconds }) =>
          Effect.succeed(busyPage(retry_after_seconds))
        ),
        Effect.catchTag("SignInFailed", ({ reason }) =>
          reason === "unavailable" ? Effect.succeed(unavailableLogout) : Effect.succeed(refusedLogout)
        ),
        Effect.catchTag("HttpServerError", () => Effect.succeed(refusedLogout))
      )

      yield* router.add("POST", LOGOUT_PATH, logout)
      yield* router.add("GET", SIGN_IN_PATH, asPage(begin))
      yield* router.add(
        "GET",
        CALLBACK_PATH,
        // Whatever comes of it, a response is accepted once.
        Effect.gen(function* () {
          const response = yield* asPage(complete)
          return yield* setCookie(response, signInCookie(yield* HttpServerRequest.HttpServerRequest), "", 0)
        })
      )
    })
  )
