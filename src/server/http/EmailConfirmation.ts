/**
 * `/verify-email`: the page that the link of a verification email opens. Opening it changes nothing, because mail
 * scanners open links too; its button sends the token. It needs no account: the token proves that its holder reads the
 * mailbox. Unknown, expired and used links get the same response, and no response has data of an organization.
 */
import { Effect } from "effect"
import { HttpRouter, HttpServerRequest, HttpServerResponse } from "effect/http"
import { createHash } from "node:crypto"
import { parseLinkToken, VERIFY_EMAIL_PATH } from "../../domain/identity/VerificationLink.ts"
import { EmailAddresses } from "../identity/EmailAddresses.ts"
import { ClientAddress } from "./ClientAddress.ts"
import { RateLimits } from "./RateLimits.ts"
import { pageHeaders } from "./securityHeaders.ts"

/** The colours and fonts of the console. */
const STYLE = `
:root { color-scheme: light dark; --accent: light-dark(#2f4a9e, #9db2f5) }
body { margin: 0; background: light-dark(#f6f6f4, #131416); color: light-dark(#1b1c1e, #eceded);
  font: 16px/1.5 ui-sans-serif, system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", Arial, sans-serif }
main { max-width: 34rem; margin: 12vh auto 0; padding: 24px }
h1 { font-size: 22px; line-height: 1.3; margin: 0 0 12px }
p { margin: 0 0 20px }
button { font: inherit; font-weight: 600; padding: 10px 18px; border: 0; border-radius: 6px; cursor: pointer;
  background: var(--accent); color: light-dark(#ffffff, #10131c) }
button:focus-visible { outline: 2px solid var(--accent); outline-offset: 2px }
`

/** The style is allowed by its digest: nothing else is loaded, run, or sent elsewhere. */
const POLICY = [
  "default-src 'none'",
  `style-src 'sha256-${createHash("sha256").update(STYLE).digest("base64")}'`,
  "base-uri 'none'",
  "form-action 'self'",
  "frame-ancestors 'none'"
].join("; ")

const page = (status: number, title: string, content: string, headers: Record<string, string> = {}) =>
  HttpServerResponse.text(
    `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="robots" content="noindex">
<title>${title} · Countersign</title>
<style>${STYLE}</style>
</head>
<body>
<main>
<h1>${title}</h1>
${content}
</main>
</body>
</html>
`,
    {
      status,
      contentType: "text/html; charset=utf-8",
      headers: {
        ...pageHeaders,
        "content-security-policy": POLICY,
        "cache-control": "no-store",
        ...headers
      }
    }
  )

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
