import { Context, Effect } from "effect"
import { HttpRouter, HttpServerRequest, HttpServerResponse } from "effect/http"
import { CONSOLE_API_PATH, CONSOLE_PATH } from "../../../api/Console.ts"
import { NotFound } from "../../../api/Problems.ts"
import { problemResponse } from "../../http/problemResponse.ts"
import { preferredEncoding } from "../../http/preferredEncoding.ts"
import { pageHeaders } from "../../http/securityHeaders.ts"
import { type Asset, type Assets, findAssets } from "./assets.ts"
import { hasSessionCookie } from "./browserRequest.ts"

/** Loads the built page; undefined if it is not built. A reference, so that tests can replace it. */
export const ConsoleAssets = Context.Reference<Effect.Effect<Assets | undefined>>(
  "countersign/server/console/Console/pages/ConsoleAssets",
  { defaultValue: () => findAssets }
)

/**
 * The Content Security Policy of the console. Scripts, styles and requests are restricted to this service, and inline code is blocked. If
 * an agent's text were ever rendered as markup, it could not run scripts, load resources or send data.
 */
const POLICY = [
  "default-src 'none'",
  "script-src 'self'",
  "style-src 'self'",
  "img-src 'self' data:",
  "font-src 'self'",
  "connect-src 'self'",
  "manifest-src 'self'",
  "base-uri 'none'",
  "form-action 'self'",
  "frame-ancestors 'none'",
  "require-trusted-types-for 'script'"
].join("; ")

const headers = { ...pageHeaders, "content-security-policy": POLICY }

/** Caching of files that have a content digest in their names. */
const IMMUTABLE = "public, max-age=31536000, immutable"

const NOT_BUILT = `<!doctype html>
<html lang="en">
<meta charset="utf-8">
<title>Countersign</title>
<h1>The console is not built</h1>
<p>The service and its API are running, but the console page has not been built. In a checkout, run <code>node scripts/setup.js</code>
or <code>npm start</code>; the published package includes the console. Then reload this page.</p>
</html>
`

/** The file of the console's logo; its name has a digest. */
const LOGO = /^assets\/logo[\w-]*\.svg$/

/** The web manifest, with which browsers install the console. Its name is stable, because browsers look for changes. */
const MANIFEST = "manifest.webmanifest"

/** Browsers name HTML in the `Accept` header of a page; `curl` and HTTP libraries accept anything. */
const acceptsHtml = (accept: string): boolean =>
  /(?:^|,)\s*(?:text\/html|application\/xhtml\+xml)\s*(?:;|,|$)/i.test(accept)

/** The root: a browser gets the console, a client a problem that says where the API is. */
const root = Effect.flatMap(HttpServerRequest.HttpServerRequest, ({ headers: { accept } }) =>
  Effect.map(
    acceptsHtml(accept ?? "")
      ? Effect.succeed(HttpServerResponse.redirect(CONSOLE_PATH))
      : problemResponse(
          new NotFound({ detail: `The API is under /v1: see /docs. The console is at ${CONSOLE_PATH}.` })
        ),
    HttpServerResponse.setHeader("vary", "accept")
  )
)

/** The routes of the page: every path under `/console`, which the page's own router interprets, its files, `/` and the icon. */
export const layer = HttpRouter.use((router) =>
  Effect.gen(function* () {
    const find = yield* ConsoleAssets
    let loaded: Assets | undefined
    // Retried until the build exists, because the console may be built while the service is running.
    const assets = Effect.suspend(() =>
      loaded === undefined
        ? Effect.tap(find, (found) => Effect.sync(() => (loaded = found)))
        : Effect.succeed(loaded)
    )

    const page = Effect.gen(function* () {
      const request = yield* HttpServerRequest.HttpServerRequest
      const files = yield* assets
      // The page of a signed-in browser preloads the app. Whether the session is still open, the page finds out.
      const isSignedIn = hasSessionCookie(request)
      const index = (isSignedIn ? files?.get("signed-in.html") : undefined) ?? files?.get("index.html")
      return index === undefined
        ? HttpServerResponse.text(NOT_BUILT, {
            status: 503,
            headers: { ...headers, "cache-control": "no-store" },
            contentType: "text/html; charset=utf-8"
          })
        : send(request, index, "no-cache", "accept-encoding, cookie")
    })

    const file = Effect.gen(function* () {
      const request = yield* HttpServerRequest.HttpServerRequest
      const name = request.url.split(/[?#]/, 1)[0]?.slice(CONSOLE_PATH.length + 1) ?? ""
      const found = (yield* assets)?.get(name)
      return found === undefined ? yield* unknownPath : send(request, found, IMMUTABLE)
    })

    const icon = Effect.gen(function* () {
      const request = yield* HttpServerRequest.HttpServerRequest
      for (const [name, asset] of (yield* assets) ?? []) {
        if (LOGO.test(name)) return send(request, asset, "public, max-age=86400")
      }
      return yield* unknownPath
    })

    const manifest = Effect.gen(function* () {
      const found = (yield* assets)?.get(MANIFEST)
      if (found === undefined) return yield* unknownPath
      return send(yield* HttpServerRequest.HttpServerRequest, found, "no-cache")
    })

    yield* router.add("GET", "/", root)
    yield* router.add("GET", "/favicon.ico", icon)
    // The wildcard also matches `/console` itself.
    yield* router.add("GET", `${CONSOLE_PATH}/*`, page)
    yield* router.add("GET", `${CONSOLE_PATH}/assets/*`, file)
    yield* router.add("GET", `${CONSOLE_PATH}/${MANIFEST}`, manifest)
    yield* router.add("*", `${CONSOLE_API_PATH}/*`, unknownPath)
  })
)

const unknownPath = Effect.suspend(() =>
  problemResponse(new NotFound({ detail: "Unknown path. See /docs for the API reference." }))
)

const send = (
  request: HttpServerRequest.HttpServerRequest,
  asset: Asset,
  cache: string,
  vary = "accept-encoding"
) => {
  const available = codings.filter((coding) => asset.encoded[coding] !== undefined)
  const coding = preferredEncoding(request.headers["accept-encoding"] ?? "", available)
  return HttpServerResponse.uint8Array(
    coding === "identity" ? asset.bytes : (asset.encoded[coding] ?? asset.bytes),
    {
      headers: {
        ...headers,
        "cache-control": cache,
        vary,
        ...(coding === "identity" ? {} : { "content-encoding": coding })
      },
      contentType: asset.type.startsWith("text/") ? `${asset.type}; charset=utf-8` : asset.type
    }
  )
}

const codings = ["br", "gzip"] as const
