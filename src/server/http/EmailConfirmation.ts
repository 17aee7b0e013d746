/**
 * `/verify-email`: the page that the link of a verification email opens. Opening it changes nothing, because mail
 * scanners open links too; its button sends the token. It needs no account: the token proves that its holder reads the
 * mailbox. Unknown, expired and used links get the same response, and no response has data of an organization.
 */
import { Effect } from "effect"
import { HttpRouter, HttpServerRequest } from "effect/http"
import { parseLinkToken, VERIFY_EMAIL_PATH } from "../../domain/identity/VerificationLink.ts"
import { EmailAddresses } from "../identity/EmailAddresses.ts"
import { ClientAddress } from "./ClientAddress.ts"
import { plainPage as page } from "./plainPage.ts"
import { RateLimits } from "../admission/RateLimits.ts"

/** Without an action the form posts to the page's own URL, which has the token, whatever path a proxy has it under. */
const question = page(
  200,
  "Confirm your email address",
  `<p>Approval emails are then sent to the address at which you got the link. If you did not expect it, close this page.</p>
<form method="post"><button type="submit">Confirm this address</button></form>`
)

const confirmed = page(
  200,
  "Your email address is confirmed",
  `<p>Approval emails can now be sent to it. You can close this page.</p>`
)

const unusable = page(
  404,
  "This link cannot be used",
  `<p>It has expired, was used before, or is incomplete. If you have confirmed your address already, there is nothing left to do.
Otherwise, ask the person who added your address to send another link.</p>`
)

const busy = (retryAfterSeconds: number) =>
  page(
    429,
    "Too many requests",
    `<p>Too many links were confirmed from your network. Wait a moment, then open the link again.</p>`,
    { "retry-after": String(retryAfterSeconds) }
  )

/** The token of the request's link. */
const tokenOf = ({ url }: HttpServerRequest.HttpServerRequest) => {
  const query = url.split("?", 2)[1] ?? ""
  return parseLinkToken(new URLSearchParams(query).get("token"))
}

/** The routes of the page. */
export const layer = HttpRouter.use((router) =>
  Effect.gen(function* () {
    const addresses = yield* EmailAddresses
    const limits = yield* RateLimits
    const client = yield* ClientAddress
    const request = HttpServerRequest.HttpServerRequest

    // Asks the database for nothing, so that it cannot be used to try tokens.
    yield* router.add(
      "GET",
      VERIFY_EMAIL_PATH,
      Effect.map(request, (one) => (tokenOf(one) === undefined ? unusable : question))
    )
    yield* router.add(
      "POST",
      VERIFY_EMAIL_PATH,
      Effect.flatMap(request, (one) => {
        const token = tokenOf(one)
        if (token === undefined) return Effect.succeed(unusable)
        return limits.admitEmailConfirmation(client.of(one)).pipe(
          Effect.andThen(addresses.confirm(token)),
          Effect.map((isConfirmed) => (isConfirmed ? confirmed : unusable)),
          Effect.catchTag("RATE_LIMITED", ({ retry_after_seconds }) =>
            Effect.succeed(busy(retry_after_seconds))
          )
        )
      })
    )
  })
)
