import { assert, layer } from "@effect/vitest"
import { Effect, Layer, Redacted } from "effect"
import { spawn } from "node:child_process"
import { mkdir, mkdtemp, rm, symlink, writeFile } from "node:fs/promises"
import { tmpdir } from "node:os"
import { join, resolve } from "node:path"
import type { Page } from "playwright-core"
import type { ClientCalls } from "../../src/client/Client.ts"
import type { Preset } from "../../src/domain/identity/Scope.ts"
import { StepId } from "../../src/domain/Ids.ts"
import { Countersign } from "../../src/testing/index.ts"
import { accessibilityViolations, Browser, openSignedIn, skipWithoutBrowser } from "../support/browser.ts"
import { service } from "../support/service.ts"

const environment = Layer.provideMerge(Browser.layer, service())

const root = resolve(import.meta.dirname, "../..")

/** A folder in which a snippet's imports are found, as in a project that has installed them. */
const project = Effect.acquireRelease(
  Effect.promise(async () => {
    const folder = await mkdtemp(join(tmpdir(), "countersign-snippet-"))
    const packages = join(folder, "node_modules")
    await mkdir(packages)
    await symlink(root, join(packages, "countersign"))
    for (const name of ["ai", "zod"]) {
      await symlink(join(root, "test/adapters/node_modules", name), join(packages, name))
    }
    const call = { id: "call-1", tool: "refund", arguments: { order: "4711", amount_cents: 12_900 } }
    await writeFile(
      join(folder, "model.ts"),
      `import { scriptedModel } from ${JSON.stringify(join(root, "test/adapters/aiSdkModel.ts"))}
export const model = scriptedModel([[${JSON.stringify(call)}]])\n`
    )
    await writeFile(join(folder, "package.json"), '{"type":"module"}')
    return folder
  }),
  (folder) => Effect.promise(() => rm(folder, { recursive: true, force: true }))
)

/** Runs a snippet in the shell or in Node.js, with the key in the environment, and returns what it prints. */
const run = async (
  folder: string,
  language: string,
  code: string,
  key: Redacted.Redacted
): Promise<string> => {
  const file = join(folder, "snippet.ts")
  await writeFile(file, code)
  const child =
    language === "curl"
      ? spawn("sh", ["-c", code], { env: environmentOf(key) })
      : spawn(process.execPath, ["--conditions=@countersign/source", "--no-warnings", file], {
          cwd: folder,
          env: environmentOf(key)
        })
  let output = ""
  child.stdout.on("data", (chunk) => (output += String(chunk)))
  child.stderr.on("data", (chunk) => (output += String(chunk)))
  return new Promise((done) => child.on("close", () => done(output)))
}

const environmentOf = (key: Redacted.Redacted) => ({
  PATH: process.env["PATH"],
  NODE_COMPILE_CACHE: process.env["NODE_COMPILE_CACHE"],
  COUNTERSIGN_API_KEY: Redacted.value(key)
})

/** What a page with a snippet is, in an organization of its own. */
interface EmptyPage {
  /** What the organization has besides. Returns the path of the page. */
  readonly seed?: (admin: ClientCalls) => Effect.Effect<string, unknown>
  readonly path?: string
  /** The preset of the page's key, if its own requests are not listed. */
  readonly viewer?: Preset
  /** The selector of the record on the page. */
  readonly record: string
  readonly languages: ReadonlyArray<string>
  /** A replacement for the address of a receiver, which is an example on the page. */
  readonly replaces?: readonly [string, string]
}

const schemas = {
  input_schema: { type: "object", properties: { text: { type: "string" } }, required: ["text"] },
  answer_schema: {
    type: "object",
    properties: { category: { enum: ["billing", "it's other"] } },
    required: ["category"]
  }
}

const taskPath = (path: (task_id: string) => string) => (admin: ClientCalls) =>
  Effect.map(admin.tasks.create({ payload: { name: "Sort messages", ...schemas } }), ({ id }) => path(id))

const both = ["curl", "TypeScript"]

const emptyPages: Readonly<Record<string, EmptyPage>> = {
  approvals: {
    path: "/approvals",
    viewer: "reviewer",
    record: "[role=option]",
    languages: [...both, "AI SDK"]
  },
  sessions: { path: "/sessions", record: "td >> text=ticket: SUP-4711", languages: [...both, "AI SDK"] },
  tasks: { path: "/tasks", record: "td >> text=Sort messages", languages: both },
  "runs of a task": {
    seed: taskPath((id) => `/tasks/${id}/runs`),
    record: ".run-row >> text=category: billing",
    languages: both
  },
  "versions of a dataset": {
    seed: taskPath((id) => `/tasks/${id}/datasets`),
    record: "td >> text=Version 1",
    languages: both
  },
  feedback: { seed: taskPath(() => "/feedback"), record: ".list-pane li", languages: both },
  endpoints: {
    path: "/endpoints",
    record: "h2 >> text=Orders team",
    languages: both,
    replaces: ["https://example.com/countersign", "http://127.0.0.1:9/hook"]
  },
  deliveries: {
    seed: (admin) =>
      Effect.as(
        admin.notificationEndpoints.create({ payload: { url: "http://127.0.0.1:9/hook" } }),
        "/deliveries"
      ),
    record: "[data-delivery]",
    languages: both
  },
  rules: { path: "/rules", record: "li >> text=A person confirms payments", languages: both },
  telemetry: {
    path: "/telemetry",
    record: ".figure >> text=spans queued",
    languages: both,
    replaces: ["https://collector.example.com/v1/traces", "http://127.0.0.1:9/v1/traces"]
  }
}

const snippetOf = async (page: Page, language: string): Promise<string> => {
  await page.getByRole("button", { name: language, exact: true }).click()
  return (await page.locator(".first-record pre").textContent()) ?? ""
}

layer(environment, { excludeTestServices: true, timeout: "180 seconds" })("Empty pages", (it) => {
  const test = skipWithoutBrowser(it)

  for (const [name, { languages, path = "", record, replaces, seed, viewer }] of Object.entries(emptyPages)) {
    test(`${name}: each snippet makes the first record appear on the open page`, () =>
      Effect.gen(function* () {
        const folder = yield* project
        const { client, key } = yield* Countersign
        for (const language of languages) {
          const organization = `${name} ${language}`
          const admin = yield* client({}, organization)
          const secret = yield* key({}, organization)
          const reviewer = yield* client({ preset: "reviewer" }, organization)
          const viewing = viewer === undefined ? secret : yield* key({ preset: viewer }, organization)
          const at = seed === undefined ? path : yield* seed(admin)
          const { page, pageErrors } = yield* openSignedIn(viewing, at, {
            permissions: ["clipboard-read", "clipboard-write"]
          })
          yield* Effect.promise(async () => {
            const code = await snippetOf(page, language)
            assert.notMatch(code, /csk_|undefined|\[object/)
            await page.getByRole("button", { name: "Copy", exact: true }).click()
            await page.waitForFunction(
              async (wanted) => (await navigator.clipboard.readText()) === wanted,
              code
            )
            await page.evaluate(() => Object.assign(window, { isSamePage: true }))
            await page.getByRole("status").filter({ hasText: "Waiting for the first" }).waitFor()
            const running = run(
              folder,
              language,
              replaces === undefined ? code : code.replace(...replaces),
              secret
            )
            const shown = page.locator(record).first()
            assert.isFalse(await shown.isVisible())
            const appeared = shown.waitFor().then(() => "appeared")
            await appeared.catch(async () => {
              const printed = await Promise.race([running, new Promise((done) => setTimeout(done, 1_000))])
              throw new Error(`The record did not appear. The snippet printed: ${String(printed)}`)
            })
            assert.isTrue(await page.evaluate(() => Reflect.get(window, "isSamePage")))
            // A program that waits for a decision ends with it.
            const { approvals } = await Effect.runPromise(
              reviewer.approvals.list({ query: { status: "pending" } })
            )
            for (const { approval_id } of approvals) {
              await Effect.runPromise(
                reviewer.approvals.decide({ params: { id: approval_id }, payload: { decision: "approve" } })
              )
            }
            const printed = await running
            assert.notMatch(printed, /undefined|"status":4|Error/, printed)
            assert.notStrictEqual(printed.trim(), "")
          })
          assert.deepStrictEqual(pageErrors, [])
        }
      }).pipe(Effect.scoped, Effect.orDie))
  }

  test("a key that cannot create keys is told whom to ask, and another one gets the link", () =>
    Effect.gen(function* () {
      const { key } = yield* Countersign
      const reviewer = yield* openSignedIn(yield* key({ preset: "reviewer" }, "whom to ask"), "/sessions")
      const admin = yield* openSignedIn(yield* key({}, "whom to ask"), "/sessions")
      yield* Effect.promise(async () => {
        await reviewer.page.getByText("ask an admin of your organization").waitFor()
        assert.strictEqual(await reviewer.page.getByRole("link", { name: "Create a key" }).count(), 0)
        await admin.page.getByRole("link", { name: "Create a key" }).click()
        await admin.page.getByRole("dialog").waitFor()
      })
      assert.deepStrictEqual(yield* accessibilityViolations(reviewer.page), [])
    }).pipe(Effect.scoped, Effect.orDie))

  test("inboxes that had records before stay quiet when they are empty", () =>
    Effect.gen(function* () {
      const { client, key } = yield* Countersign
      const admin = yield* client({}, "done")
      const { session_id } = yield* admin.sessions.create({ payload: {} })
      const step = yield* admin.sessions.step({
        params: { id: session_id },
        payload: { step_id: StepId.make("one"), tool: "pay", action_class: "write" }
      })
      assert.isNotNull(step.approval_id)
      if (step.approval_id === null) return
      const reviewer = yield* client({ preset: "reviewer" }, "done")
      yield* reviewer.approvals.decide({ params: { id: step.approval_id }, payload: { decision: "reject" } })
      const { page } = yield* openSignedIn(yield* key({}, "done"), "/approvals")
      yield* Effect.promise(async () => {
        await page.getByText("No pending approvals").waitFor()
        assert.strictEqual(await page.locator(".first-record").count(), 0)
      })
    }).pipe(Effect.scoped, Effect.orDie))
})
