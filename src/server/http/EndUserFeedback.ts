/**
 * Authentication and CORS of the one operation that browsers of end users call, `POST /v1/runs/:id/end-user-feedback`.
 * No other operation accepts a feedback token or has headers of CORS.
 *
 * A preflight has no token, so it cannot tell whose page asks: it lets any page try, which tells the page nothing. The
 * request itself is refused before anything else if the organization of its token does not allow its origin. Only with an
 * allowed origin can a page read the response. Cookies are never allowed, and have no effect.
 */
import { Effect, Layer, Option, Redacted, Schema } from "effect"
import { HttpEffect, HttpRouter, HttpServerRequest, HttpServerResponse } from "effect/http"
import { SqlClient } from "effect/sql"
import {
  CurrentFeedbackToken,
  END_USER_FEEDBACK_PATH,
  FeedbackTokenAuthentication
} from "../../api/EndUserFeedback.ts"
import { InvalidFeedbackToken, OriginNotAllowed } from "../../api/Problems.ts"
import type { OrgId } from "../../domain/Ids.ts"
import { isWebOrigin } from "../../domain/network/WebOrigin.ts"
import { parseFeedbackToken } from "../../domain/tasks/FeedbackToken/text.ts"
import { SecretBox } from "../secrets/SecretBox.ts"
import { rowsOf } from "../store/rows.ts"
import { StoreClock } from "../store/StoreClock.ts"
import { ClientAddress } from "./ClientAddress.ts"
import { RateLimits } from "../admission/RateLimits.ts"
import { makeRequestLog } from "./RequestLog.ts"

/** How long a browser caches a preflight, in seconds. */
const PREFLIGHT_SECONDS = "600"

/** Sets headers of the response, also if the request is refused. */
const withHeaders = (headers: Readonly<Record<string, string>>) =>
  HttpEffect.appendPreResponseHandler((_, response) =>
    Effect.succeed(HttpServerResponse.setHeaders(response, headers))
  )

/** Caches must not serve a response to one origin to another. */
const varyByOrigin = withHeaders({ vary: "Origin" })

const invalid = (detail: string) => Effect.fail(new InvalidFeedbackToken({ detail }))

/** Authenticates a request by its feedback token, within the rate limits of its address, its token and its organization. */
export const layerAuthentication = Layer.effect(
  FeedbackTokenAuthentication,
  Effect.gen(function* () {
    const sql = yield* SqlClient.SqlClient
    const box = yield* SecretBox
    const clock = yield* StoreClock
    const limits = yield* RateLimits
    const client = yield* ClientAddress
    const log = yield* makeRequestLog

    /** Not cached: an origin that was removed is refused at once. */
    const allowsOrigin = (org_id: OrgId, origin: string) =>
      settingsRows
        .first(
          sql`
            SELECT ${origin}::text = ANY(allowed_origins) AS allows
            FROM feedback_settings
            WHERE org_id = ${org_id}
          `
        )
        .pipe(
          Effect.map((row) => row?.allows === true),
          Effect.orDie
        )

    return FeedbackTokenAuthentication.of({
      feedback_token: Effect.fnUntraced(function* (operation, { credential }) {
        const request = yield* HttpServerRequest.HttpServerRequest
        yield* varyByOrigin
        yield* limits.admitEndUserAddress(client.of(request))
        const parsed = parseFeedbackToken(Redacted.value(credential), (text, signature) =>
          box.isSigned("feedback-token", text, signature)
        )
        if (Option.isNone(parsed)) {
          return yield* invalid(
            "Invalid feedback token. A token has the form cft_…, and your server creates it."
          )
        }
        const token = parsed.value
        const { org_id } = token
        yield* limits.admitEndUserFeedback(token)
        const { origin } = request.headers
        // Apps that are not in a browser send no origin.
        if (origin !== undefined) {
          if (!isWebOrigin(origin) || !(yield* allowsOrigin(org_id, origin))) {
            return yield* new OriginNotAllowed({
              detail:
                "Pages of this origin may not send feedback. Add it to `allowed_origins` of the feedback settings."
            })
          }
          yield* withHeaders({ "access-control-allow-origin": origin })
        }
        if (token.expires_at * 1000 <= clock.millisUnsafe()) {
          return yield* invalid(
            "This feedback token has expired. Ask the server that created it for a new one."
          )
        }
        return yield* log.caller(
          { org_id, actor: { id: token.key_id, name: "" } },
          Effect.provideService(operation, CurrentFeedbackToken, token)
        )
      })
    })
  })
)

const settingsRows = rowsOf(Schema.Struct({ allows: Schema.Boolean }))

/** Responses to preflights. */
export const layerPreflight = HttpRouter.use((router) =>
  Effect.gen(function* () {
    const log = yield* makeRequestLog
    const endpoint = { identifier: "preflight", path: END_USER_FEEDBACK_PATH }
    const group = { identifier: "end_user_feedback" }
    yield* router.add(
      "OPTIONS",
      END_USER_FEEDBACK_PATH,
      Effect.flatMap(HttpServerRequest.HttpServerRequest, ({ headers: { origin } }) =>
        log.operation(
          { endpoint, group },
          Effect.succeed(
            HttpServerResponse.empty({
              status: 204,
              headers: {
                vary: "Origin",
                ...(origin === undefined || !isWebOrigin(origin)
                  ? {}
                  : {
                      "access-control-allow-origin": origin,
                      "access-control-allow-methods": "POST",
                      "access-control-allow-headers": "authorization, content-type",
                      "access-control-max-age": PREFLIGHT_SECONDS
                    })
              }
            })
          )
        )
      )
    )
  })
)
