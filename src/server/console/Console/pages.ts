import { Context, Effect } from "effect"
import { HttpRouter, HttpServerRequest, HttpServerResponse } from "effect/http"
import { CONSOLE_API_PATH, CONSOLE_PATH } from "../../../api/Console.ts"
import { NotFound } from "../../../api/Problems.ts"
import { problemResponse } from "../../http/problemResponse.ts"
import { type Asset, type Assets, findAssets } from "./assets.ts"

/** Where the built page comes from; undefined: there is none. A reference, so that a test can say. */
export const ConsoleAssets = Context.Reference<Effect.Effect<Assets | undefined>>(
  "countersign/server/console/Console/pages/ConsoleAssets",
  { defaultValue: () => findAssets }
)

/**
 * What a browser may do for a page of the console: run, show and ask what comes from this service, and nothing that stands in the page
 * itself. Text of an agent that found its way into markup would still run nothing, load nothing and send nothing.
 */
const POLICY = [
  "default-src 'none'",
  "script-src 'self'",
  "style-src 'self'",
  "img-src 'self' data:",
  "font-src 'self'",
  "connect-src 'self'",
  "base-uri 'none'",
  "form-action 'self'",
  "frame-ancestors 'none'",
  "require-trusted-types-for 'script'"
].join("; ")

const headers = {
  "content-security-policy": POLICY,
  "cross-origin-opener-policy": "same-origin",
  "cross-origin-resource-policy": "same-origin",
  "permissions-policy": "camera=(), geolocation=(), microphone=(), payment=(), usb=()",
  "referrer-policy": "no-referrer",
  "x-content-type-options": "nosniff",
  "x-frame-options": "DENY"
}

/** Files whose name holds the digest of what is in them never change. */
const IMMUTABLE = "public, max-age=31536000, immutable"

const NOT_BUILT = `<!doctype html>
<html lang="en">
<meta charset="utf-8">
<title>Countersign</title>
<h1>The console is not built</h1>
<p>The service runs, and so does its API; the page of the console is missing. In a checkout, <code>node scripts/setup.js</code> builds it,
as does <code>npm start</code>; a published package brings it along. Then load this page again.</p>
</html>
`

/** The page under `/console`, every address in it, and its files. */
export const layer = HttpRouter.use((router) =>
  Effect.gen(function* () {
    const find = yield* ConsoleAssets
    let known: Assets | undefined
    // Looked for again until it is there: the page may be built beside a running service.
    const assets = Effect.suspend(() =>
      known === undefined
        ? Effect.tap(find, (found) => Effect.sync(() => (known = found)))
        : Effect.succeed(known)
    )

    const page = Effect.gen(function* () {
      const request = yield* HttpServerRequest.HttpServerRequest
      const index = (yield* assets)?.get("index.html")
      return index === undefined
        ? HttpServerResponse.text(NOT_BUILT, {
            status: 503,
            headers: { ...headers, "cache-control": "no-store" },
            contentType: "text/html; charset=utf-8"
          })
        : send(request, index, "no-cache")
    })

    const file = Effect.gen(function* () {
      const request = yield* HttpServerRequest.HttpServerRequest
      const name = request.url.split(/[?#]/, 1)[0]?.slice(CONSOLE_PATH.length + 1) ?? ""
      const found = (yield* assets)?.get(name)
      return found === undefined ? yield* noSuchPath : send(request, found, IMMUTABLE)
    })

    // Addresses within the page are its own to read. The path itself is one of them.
    yield* router.add("GET", `${CONSOLE_PATH}/*`, page)
    yield* router.add("GET", `${CONSOLE_PATH}/assets/*`, file)
    yield* router.add("*", `${CONSOLE_API_PATH}/*`, noSuchPath)
  })
)

const noSuchPath = Effect.suspend(() => problemResponse(new NotFound({ detail: "There is no such path" })))

const send = (request: HttpServerRequest.HttpServerRequest, asset: Asset, cache: string) => {
  const packed = /\bgzip\b/.test(request.headers["accept-encoding"] ?? "") ? asset.gzipped : undefined
  return HttpServerResponse.uint8Array(packed ?? asset.bytes, {
    headers: {
      ...headers,
      "cache-control": cache,
      vary: "accept-encoding",
      ...(packed === undefined ? {} : { "content-encoding": "gzip" })
    },
    contentType: asset.type.startsWith("text/") ? `${asset.type}; charset=utf-8` : asset.type
  })
}
