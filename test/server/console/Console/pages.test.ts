import { assert, describe, it } from "@effect/vitest"
import * as NodeServices from "@effect/platform-node/NodeServices"
import { Effect, Layer } from "effect"
import { HttpRouter } from "effect/http"
import type { Assets } from "../../../../src/server/console/Console/assets.ts"
import { ConsoleAssets, layer } from "../../../../src/server/console/Console/pages.ts"

/** Requests a path of a console with the given build. */
const request = (assets: Assets | undefined, path: string, headers: Record<string, string> = {}) =>
  Effect.acquireUseRelease(
    Effect.sync(() =>
      HttpRouter.toWebHandler(
        layer.pipe(
          Layer.provide(Layer.succeed(ConsoleAssets, Effect.succeed(assets))),
          Layer.provideMerge(NodeServices.layer)
        ),
        { disableLogger: true }
      )
    ),
    ({ handler }) => Effect.promise(() => handler(new Request(`http://localhost${path}`, { headers }))),
    ({ dispose }) => Effect.promise(dispose)
  )

const text = (type: string, content: string) => ({
  type,
  bytes: Buffer.from(content),
  encoded: { br: Buffer.from(`brotli ${content}`), gzip: Buffer.from(`packed ${content}`) }
})

const built: Assets = new Map([
  ["index.html", text("text/html", "the page")],
  ["signed-in.html", text("text/html", "the page with the app")],
  ["assets/index-1a2b.js", text("text/javascript", "the program")],
  ["assets/logo-3c4d.svg", text("image/svg+xml", "the logo")]
])

describe("Console pages", () => {
  it.effect("an unbuilt console answers 503 with instructions, under the same policy", () =>
    Effect.gen(function* () {
      const answer = yield* request(undefined, "/console")
      assert.strictEqual(answer.status, 503)
      assert.include(yield* Effect.promise(() => answer.text()), "node scripts/setup.js")
      assert.include(answer.headers.get("content-security-policy") ?? "", "default-src 'none'")
    })
  )

  it.effect("every path serves the page, which is revalidated each time", () =>
    Effect.gen(function* () {
      for (const path of ["/console", "/console/", "/console/approvals/apr_1", "/console/a/b/c"]) {
        const answer = yield* request(built, path)
        assert.strictEqual(yield* Effect.promise(() => answer.text()), "the page", path)
        assert.strictEqual(answer.headers.get("cache-control"), "no-cache")
      }
    })
  )

  it.effect("the page of a browser with a session preloads the app", () =>
    Effect.gen(function* () {
      const answer = yield* request(built, "/console", { host: "localhost", cookie: "countersign-80=token" })
      assert.strictEqual(yield* Effect.promise(() => answer.text()), "the page with the app")
      assert.include(answer.headers.get("vary") ?? "", "cookie")
    })
  )

  it.effect("the root answers a client that is no browser with a problem that says where the API is", () =>
    Effect.gen(function* () {
      for (const accept of ["*/*", "application/json", "text/htmlx"]) {
        const answer = yield* request(built, "/", { host: "localhost", accept })
        assert.strictEqual(answer.status, 404)
        assert.strictEqual(answer.headers.get("content-type"), "application/problem+json")
        assert.include(yield* Effect.promise(() => answer.text()), "The API is under /v1")
      }
    })
  )

  it.effect("the root leads a browser to the console, whose logo is the icon", () =>
    Effect.gen(function* () {
      const html = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"
      const root = yield* request(built, "/", { host: "localhost", accept: html })
      assert.strictEqual(root.status, 302)
      assert.strictEqual(root.headers.get("location"), "/console")
      assert.strictEqual(root.headers.get("vary"), "accept")
      const icon = yield* request(built, "/favicon.ico")
      assert.strictEqual(icon.headers.get("content-type"), "image/svg+xml")
      assert.strictEqual(yield* Effect.promise(() => icon.text()), "the logo")
    })
  )

  it.effect("the web manifest has its type, is allowed by the policy, and is revalidated", () =>
    Effect.gen(function* () {
      const manifest = {
        type: "application/manifest+json",
        bytes: Buffer.from("the manifest"),
        encoded: {}
      }
      const path = "/console/manifest.webmanifest"
      const answer = yield* request(new Map([...built, ["manifest.webmanifest", manifest]]), path)
      assert.strictEqual(yield* Effect.promise(() => answer.text()), "the manifest")
      assert.strictEqual(answer.headers.get("content-type"), "application/manifest+json")
      assert.strictEqual(answer.headers.get("cache-control"), "no-cache")
      assert.include(answer.headers.get("content-security-policy") ?? "", "manifest-src 'self'")
      assert.strictEqual((yield* request(built, path)).status, 404)
    })
  )

  it.effect("files are immutable, and sent in the coding that the client prefers", () =>
    Effect.gen(function* () {
      const path = "/console/assets/index-1a2b.js"
      const plain = yield* request(built, path)
      assert.strictEqual(yield* Effect.promise(() => plain.text()), "the program")
      assert.strictEqual(plain.headers.get("content-encoding"), null)
      assert.include(plain.headers.get("vary") ?? "", "accept-encoding")
      for (const [accepted, coding] of [
        ["gzip, deflate, br, zstd", "br"],
        ["br;q=0, gzip", "gzip"],
        ["br;q=0.5, gzip;q=0.8", "gzip"],
        ["zstd", null],
        ["*;q=0", null]
      ] as const) {
        const packed = yield* request(built, path, { "accept-encoding": accepted })
        assert.strictEqual(packed.headers.get("content-encoding"), coding, accepted)
        assert.include(packed.headers.get("cache-control") ?? "", "immutable")
        assert.include(packed.headers.get("vary") ?? "", "accept-encoding")
      }
      assert.strictEqual((yield* request(built, "/console/assets/other.js")).status, 404)
    })
  )

  it.effect("a build without brotli files is sent with gzip", () =>
    Effect.gen(function* () {
      const old: Assets = new Map([
        [
          "assets/a.js",
          { type: "text/javascript", bytes: Buffer.from("a"), encoded: { gzip: Buffer.from("packed") } }
        ]
      ])
      const packed = yield* request(old, "/console/assets/a.js", { "accept-encoding": "gzip, br" })
      assert.strictEqual(packed.headers.get("content-encoding"), "gzip")
    })
  )
})
