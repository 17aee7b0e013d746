import { assert, layer } from "@effect/vitest"
import { Effect, Layer } from "effect"
import type { BrowserContext, Page, Request } from "playwright-core"
import { StepId } from "../../src/domain/Ids.ts"
import { Countersign } from "../../src/testing/index.ts"
import {
  Browser,
  openPage,
  openSignedIn,
  signInBy,
  signInByForm,
  skipWithoutBrowser
} from "../support/browser.ts"
import { service } from "../support/service.ts"

const environment = Layer.provideMerge(Browser.layer, service())

/** Starts a session in an organization; returns a function that submits a step that needs an approval. */
const agentOf = (organization: string) =>
  Effect.gen(function* () {
    const { client } = yield* Countersign
    const agent = yield* client({ preset: "runtime", name: "agent" }, organization)
    const { session_id } = yield* agent.sessions.create({})
    return (step: string, tool = "payments.refund") =>
      Effect.map(
        agent.sessions.step({
          params: { id: session_id },
          payload: { step_id: StepId.make(step), tool, action_class: "write" }
        }),
        ({ approval_id }) => approval_id ?? assert.fail("the step waits")
      )
  })

/** The paths under `/console/inbox` that the pages of a context request, in order. */
const inboxRequests = (context: BrowserContext): Array<string> => {
  const paths: Array<string> = []
  context.on("request", (request: Request) => {
    const { pathname } = new URL(request.url())
    if (pathname.startsWith("/console/inbox")) paths.push(pathname.slice("/console/inbox".length))
  })
  return paths
}

/** The badge beside the link of the approvals page. */
const badge = (page: Page, text: string) =>
  page.locator(".nav-badge").filter({ hasText: new RegExp(`^${text} pending$`) })

/** The icon of the tab, as text. */
const icon = (page: Page) =>
  page.evaluate(() =>
    decodeURIComponent(document.querySelector<HTMLLinkElement>("link[rel=icon]")?.href ?? "")
  )

layer(environment, { excludeTestServices: true, timeout: "120 seconds" })(
  "Number of pending approvals",
  (it) => {
    const test = skipWithoutBrowser(it)

    test("badge, title and icon show it on every page and keep it current, without reading the inbox", () =>
      Effect.gen(function* () {
        const { clientWith, key } = yield* Countersign
        const ask = yield* agentOf("badge")
        const first = yield* ask("one")
        const secret = yield* key({ preset: "reviewer", name: "Ada" }, "badge")
        const { page, pageErrors } = yield* openPage()
        const requests = inboxRequests(page.context())
        yield* Effect.promise(async () => {
          await signInByForm(page, secret, "/rules")
          await badge(page, "1").waitFor()
          await page.waitForFunction(() => document.title === "(1) Rules · Countersign")
          assert.include(await icon(page), ">1</text>")
        })
        yield* Effect.forEach(["two", "three"], (step) => ask(step))
        yield* Effect.promise(() =>
          page.waitForFunction(() => document.title === "(3) Rules · Countersign").then(() => undefined)
        )
        yield* Effect.forEach(
          Array.from({ length: 9 }, (_, index) => `more ${index}`),
          (step) => ask(step),
          { discard: true }
        )
        yield* Effect.promise(async () => {
          await badge(page, "12").waitFor()
          assert.include(await icon(page), ">9+</text>")
        })
        const ada = yield* clientWith(secret)
        const { approvals } = yield* ada.approvals.list({ query: { status: "pending" } })
        yield* Effect.forEach(
          approvals.filter(({ approval_id }) => approval_id !== first),
          ({ approval_id }) =>
            ada.approvals.decide({ params: { id: approval_id }, payload: { decision: "approve" } }),
          { discard: true }
        )
        yield* Effect.promise(() => badge(page, "1").waitFor())
        yield* ada.approvals.decide({ params: { id: first }, payload: { decision: "approve" } })
        yield* Effect.promise(async () => {
          await page.waitForFunction(() => document.title === "Rules · Countersign")
          assert.match(await icon(page), /logo/)
        })
        assert.deepStrictEqual(new Set(requests), new Set(["/stream", "/count"]))
        assert.deepStrictEqual(pageErrors, [])
      }).pipe(Effect.scoped, Effect.orDie))

    test("two tabs of one session share one event stream, and the other one continues when it closes", () =>
      Effect.gen(function* () {
        const { key } = yield* Countersign
        const secret = yield* key({ preset: "reviewer", name: "Ada" }, "tabs")
        const ask = yield* agentOf("tabs")
        const { page, pageErrors } = yield* openSignedIn(secret, "/rules")
        // The stream of the page that the sign-in opened ends before requests are counted.
        yield* Effect.promise(() => page.goto("about:blank"))
        const requests = inboxRequests(page.context())
        const streams = () => requests.filter((path) => path === "/stream").length
        yield* Effect.promise(() => page.goto("/console/rules"))
        const second = yield* Effect.promise(async () => {
          await page.getByRole("heading", { name: "Rules", exact: true }).waitFor()
          const opened = await page.context().newPage()
          await opened.goto("/console/approvals")
          await opened.getByText("Live · sorted by deadline").waitFor()
          return opened
        })
        yield* ask("one", "mail.send")
        yield* Effect.promise(async () => {
          await second.getByRole("option", { name: /mail\.send/ }).waitFor()
          await badge(page, "1").waitFor()
          await badge(second, "1").waitFor()
          assert.strictEqual(streams(), 1)
          await page.close()
        })
        // It may arrive between the two streams.
        yield* ask("two", "mail.read")
        yield* Effect.promise(async () => {
          await second.getByRole("option", { name: /mail\.read/ }).waitFor()
          await badge(second, "2").waitFor()
          await second.getByText("Live · sorted by deadline").waitFor()
          assert.strictEqual(streams(), 2)
        })
        assert.deepStrictEqual(pageErrors, [])
      }).pipe(Effect.scoped, Effect.orDie))

    test("from a leader that no longer answers, a tab that is shown takes over, and nothing is missed", () =>
      Effect.gen(function* () {
        const { key } = yield* Countersign
        const secret = yield* key({ preset: "reviewer", name: "Ada" }, "frozen")
        const ask = yield* agentOf("frozen")
        const { page } = yield* openSignedIn(secret, "/approvals")
        const live = (tab: Page) => tab.getByText("Live · sorted by deadline").waitFor()
        const requests = inboxRequests(page.context())
        const streams = () => requests.filter((path) => path === "/stream").length
        const second = yield* Effect.promise(async () => {
          await live(page)
          const opened = await page.context().newPage()
          await opened.goto("/console/approvals")
          await live(opened)
          return opened
        })
        const before = streams()
        let thaw = () => {}
        const frozen = yield* Effect.promise(async () => {
          const started = new Promise<void>((resolve) => {
            void page.route("**/frozen", async (route) => {
              await new Promise<void>((done) => {
                thaw = done
                resolve()
              })
              await route.fulfill({ body: "" })
            })
          })
          // The tab's scripts do not run until the response, as in a frozen tab.
          const options = page.evaluate(() => {
            const request = new XMLHttpRequest()
            request.open("GET", "/frozen", false)
            request.send()
            return document.querySelectorAll("[role=option]").length
          })
          // Of a test that ends before.
          options.catch(() => undefined)
          // A probe before that would be answered, and the next one is sent 15 seconds later.
          await started
          return { options }
        })
        yield* Effect.promise(async () => {
          await second.evaluate(() => void dispatchEvent(new Event("focus")))
        })
        yield* ask("one", "mail.send")
        yield* Effect.promise(async () => {
          await second.getByRole("option", { name: /mail\.send/ }).waitFor()
          assert.strictEqual(streams(), before + 1)
          thaw()
          assert.strictEqual(await frozen.options, 0)
          await page.getByRole("option", { name: /mail\.send/ }).waitFor()
          await live(page)
          await live(second)
        })
        yield* ask("two", "mail.read")
        yield* Effect.promise(async () => {
          await second.getByRole("option", { name: /mail\.read/ }).waitFor()
          await page.getByRole("option", { name: /mail\.read/ }).waitFor()
          // The first tab has closed its own.
          assert.strictEqual(streams(), before + 1)
        })
      }).pipe(Effect.scoped, Effect.orDie))

    test("a refusal that arrives after another tab has signed in leads to the new session", () =>
      Effect.gen(function* () {
        const { key, url } = yield* Countersign
        const first = yield* key({ preset: "reviewer", name: "Ada" }, "late refusal")
        const { page } = yield* openSignedIn(first, "/approvals")
        const there = yield* key({ preset: "reviewer", name: "Bob" }, "late refusal elsewhere")
        const ask = yield* agentOf("late refusal")
        const refuse = yield* Effect.promise(async () => {
          await page.getByText("Live · sorted by deadline").waitFor()
          let release: () => void = () => undefined
          const signedIn = new Promise<void>((resolve) => (release = resolve))
          await page.route(
            "**/console/overview/alerts",
            async (route) => {
              await signedIn
              await route.fulfill({ status: 401, json: {} })
            },
            { times: 1 }
          )
          return release
        })
        const asked = page.waitForRequest("**/console/overview/alerts")
        // Its count lets the page read the alerts.
        yield* ask("one")
        yield* Effect.promise(async () => {
          await asked
          const tab = await page.context().newPage()
          await tab.goto("/healthz")
          await signInBy(tab, url, there)
          refuse()
          await page.waitForURL(/\/console\/overview$/)
          await page.getByText("Bob", { exact: true }).waitFor()
        })
      }).pipe(Effect.scoped, Effect.orDie))

    test("after a sign-in with a key of another organization, no tab shows anything of the other one", () =>
      Effect.gen(function* () {
        const { key, url } = yield* Countersign
        const here = yield* key({ preset: "reviewer", name: "Ada" }, "here")
        const there = yield* key({ preset: "reviewer", name: "Bob" }, "there")
        const askHere = yield* agentOf("here")
        const askThere = yield* agentOf("there")
        const { page } = yield* openSignedIn(here, "/approvals")
        const second = yield* Effect.promise(async () => {
          await page.getByText("Live · sorted by deadline").waitFor()
          const opened = await page.context().newPage()
          await opened.goto("/console/approvals")
          await opened.getByText("Live · sorted by deadline").waitFor()
          // What each page shows at any time.
          for (const tab of [page, opened]) {
            await tab.evaluate(() => {
              const seen = new Set<string>()
              new MutationObserver(() => {
                for (const row of document.querySelectorAll("[role=option]")) seen.add(row.textContent)
              }).observe(document.body, { childList: true, subtree: true })
              addEventListener("beforeunload", () => sessionStorage.setItem("seen", [...seen].join("\n")))
            })
          }
          return opened
        })
        yield* askHere("one", "mail.here")
        yield* Effect.promise(async () => {
          await second.getByRole("option", { name: /mail\.here/ }).waitFor()
          const tab = await page.context().newPage()
          await tab.goto("/healthz")
          await signInBy(tab, url, there)
        })
        yield* askThere("one", "mail.there")
        yield* askHere("two", "mail.here")
        yield* Effect.promise(async () => {
          for (const tab of [page, second]) {
            // The page reloads at its start, as the other key.
            await tab.waitForURL(/\/console\/overview$/)
            await tab.getByText("Bob", { exact: true }).waitFor()
            await badge(tab, "1").waitFor()
            const seen = await tab.evaluate(() => sessionStorage.getItem("seen") ?? "")
            assert.notInclude(seen, "mail.there")
          }
        })
      }).pipe(Effect.scoped, Effect.orDie))
  }
)
