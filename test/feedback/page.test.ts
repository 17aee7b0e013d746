import { assert, layer } from "@effect/vitest"
import { Context, Effect, Layer, Redacted } from "effect"
import { build } from "esbuild"
import { spawn } from "node:child_process"
import { copyFileSync, mkdirSync, mkdtempSync, rmSync, symlinkSync } from "node:fs"
import { tmpdir } from "node:os"
import path from "node:path"
import { fileURLToPath } from "node:url"
import { libraryOptions } from "../../scripts/bundle.js"
import { Countersign } from "../../src/testing/index.ts"
import { Browser, openPage, skipWithoutBrowser } from "../support/browser.ts"
import { createDesk } from "../support/feedback.ts"
import { freePort } from "../support/freePort.ts"
import { service } from "../support/service.ts"
import { startFront } from "../support/startFront.ts"

const root = fileURLToPath(new URL("../..", import.meta.url))

/** A directory with the example beside the published package, as an application has it. */
const application = Effect.acquireRelease(
  Effect.promise(async () => {
    const directory = mkdtempSync(path.join(tmpdir(), "countersign-page-"))
    const published = path.join(directory, "node_modules", "countersign")
    mkdirSync(published, { recursive: true })
    copyFileSync(path.join(root, "package.json"), path.join(published, "package.json"))
    await build({
      ...libraryOptions({
        connect: path.join(root, "src", "client", "connect", "index.ts"),
        feedback: path.join(root, "src", "feedback", "index.ts")
      }),
      outdir: path.join(published, "dist"),
      packages: "external"
    })
    for (const dependency of ["effect", "eventsource-parser", "uuid"]) {
      symlinkSync(
        path.join(root, "node_modules", dependency),
        path.join(directory, "node_modules", dependency)
      )
    }
    for (const file of ["feedback-server.ts", "feedback-page.html"]) {
      copyFileSync(path.join(root, "examples", file), path.join(directory, file))
    }
    return directory
  }),
  (directory) => Effect.sync(() => rmSync(directory, { recursive: true, force: true }))
)

/** Runs the example's server until the scope closes; returns the URL of its page. */
const startServer = Effect.fnUntraced(function* (environment: Readonly<Record<string, string>>) {
  const directory = yield* application
  const child = yield* Effect.acquireRelease(
    Effect.sync(() =>
      spawn(process.execPath, ["feedback-server.ts"], {
        cwd: directory,
        env: { PATH: process.env["PATH"], ...environment },
        stdio: ["ignore", "pipe", "pipe"]
      })
    ),
    (running) => Effect.sync(() => running.kill("SIGKILL"))
  )
  let output = ""
  child.stderr.on("data", (data: Buffer) => (output += data.toString()))
  return yield* Effect.promise(
    () =>
      new Promise<string>((resolve, reject) => {
        child.stdout.on("data", (data: Buffer) => {
          output += data.toString()
          const url = /serving (\S+)/.exec(output)?.[1]
          if (url !== undefined) resolve(url)
        })
        child.once("exit", () => reject(new Error(output)))
      })
  )
})

/** A service that knows its own URL, which the page sends the feedback to. */
const layerService = Layer.unwrap(
  Effect.map(startFront, ({ forwardTo, url }) =>
    Layer.tap(service({ environment: { COUNTERSIGN_PUBLIC_URL: url } }), (built) =>
      Effect.sync(() => forwardTo(Context.get(built, Countersign).url))
    )
  )
)

layer(Layer.mergeAll(layerService, Browser.layer), { excludeTestServices: true })("feedback page", (it) => {
  skipWithoutBrowser(it)(
    "a page sends an end user's feedback, from an allowed origin only",
    () =>
      Effect.gen(function* () {
        const countersign = yield* Countersign
        const { admin, run } = yield* createDesk("page")
        const trace_id = yield* run("where is my parcel")
        const key = yield* countersign.key({ preset: "end_user_feedback", name: "web" }, "page")
        // The page's origin has to be known before its server starts.
        const port = yield* Effect.promise(freePort)
        const url = yield* startServer({
          COUNTERSIGN_URL: countersign.url,
          COUNTERSIGN_KEY: Redacted.value(key),
          RUN: trace_id,
          PAGE_PORT: String(port)
        })
        const { page, pageErrors } = yield* openPage({ baseURL: url })
        const status = page.getByRole("status")
        const send = async () => {
          await page.getByRole("button", { name: "Send" }).click()
          await status.filter({ hasText: /./ }).waitFor()
          return status.textContent()
        }
        const refused = yield* Effect.promise(async () => {
          await page.goto("/")
          await page.getByLabel("No", { exact: true }).check()
          await page.getByLabel("What could be better?").fill("It came yesterday")
          return send()
        })
        assert.strictEqual(refused, "Your feedback was not sent. Please try again.")
        assert.lengthOf((yield* admin.feedback.list({})).feedback, 0)

        yield* admin.feedbackSettings.replace({ payload: { allowed_origins: [new URL(url).origin] } })
        const sent = yield* Effect.promise(async () => {
          await page.reload()
          await page.getByLabel("No", { exact: true }).check()
          await page.getByLabel("What could be better?").fill("It came yesterday")
          return send()
        })
        assert.strictEqual(sent, "Thank you!")
        const { feedback } = yield* admin.feedback.list({})
        assert.lengthOf(feedback, 1)
        assert.deepInclude(feedback[0], {
          score: -1,
          comment: "It came yesterday",
          source: "feedback_token",
          inference_log_id: trace_id
        })
        assert.deepStrictEqual(pageErrors, [])
      }),
    120_000
  )
})
