import { assert, describe, it } from "@effect/vitest"
import { Effect, Logger, Redacted, Schema } from "effect"
import { generateKeyPairSync, type KeyObject } from "node:crypto"
import { SqlClient } from "effect/sql"
import { PAGE_HEADER, PAGE_PARAMETER } from "../../../src/api/console/pageToken.ts"
import { ConsoleSession } from "../../../src/api/Console.ts"
import { Person } from "../../../src/api/console/People.ts"
import { KeyId, StepId } from "../../../src/domain/Ids.ts"
import type { AuditAction } from "../../../src/domain/identity/AuditEntry.ts"
import { presetScopes } from "../../../src/domain/identity/Scope.ts"
import { identityMakers } from "../../../src/server/identity/identityMakers.ts"
import { Countersign } from "../../../src/testing/index.ts"
import { consoleHeaders } from "../../support/consoleCookie.ts"
import { databaseAsText } from "../../support/databaseAsText.ts"
import { withProvider } from "../../support/singleSignOn.ts"

const decodeSession = Schema.decodeUnknownSync(Schema.fromJsonString(Schema.NullOr(ConsoleSession)))

const decodePeople = Schema.decodeUnknownSync(Schema.Struct({ people: Schema.Array(Person) }))

const decodeCreated = Schema.decodeUnknownSync(
  Schema.fromJsonString(Schema.Struct({ key: Schema.Struct({ id: KeyId }), secret: Schema.String }))
)

const decodeObject = Schema.decodeUnknownSync(
  Schema.fromJsonString(Schema.Record(Schema.String, Schema.Json))
)

/** The claims of a logout token about Ada, issued now. */
const logoutClaims = (provider: { readonly issuer: string; readonly clientId: string }) => {
  const now = Math.floor(Date.now() / 1_000)
  return {
    iss: provider.issuer,
    aud: provider.clientId,
    iat: now,
    exp: now + 120,
    jti: "one",
    sub: "ada",
    events: { "http://schemas.openid.net/event/backchannel-logout": {} }
  }
}

/** Sends a logout token to the service at a URL. */
const sendLogout = (url: string, token: string) =>
  Effect.promise(() =>
    fetch(`${url}/console/single-sign-on/logout`, {
      method: "POST",
      body: new URLSearchParams({ logout_token: token })
    })
  )

/** A browser's cookies and navigations, without its pages. */
class Navigator {
  readonly cookies = new Map<string, string>()
  /** What the page takes out of its address and keeps. */
  page: string | null = null

  /** Requests one address, without following a redirect. */
  async get(address: string, headers: Record<string, string> = {}) {
    const { host } = new URL(address)
    const response = await fetch(address, {
      redirect: "manual",
      headers: { ...this.headersOf(address), ...headers }
    })
    for (const cookie of response.headers.getSetCookie()) {
      const [, name = "", value = ""] = /^([^=]+)=([^;]*)/.exec(cookie) ?? []
      if (value === "" || /max-age=0/i.test(cookie)) this.cookies.delete(`${host} ${name}`)
      else this.cookies.set(`${host} ${name}`, value)
    }
    const [location = null, fragment] = response.headers.get("location")?.split("#") ?? []
    this.page = new URLSearchParams(fragment).get(PAGE_PARAMETER) ?? this.page
    return {
      status: response.status,
      location: location === null ? undefined : new URL(location, address).toString(),
      body: await response.text(),
      setCookie: response.headers.getSetCookie()
    }
  }

  /** Follows redirects from an address until one stays, or leads to `until`. */
  async follow(address: string, until = "\0") {
    let at = address
    for (let hops = 0; hops < 12; hops++) {
      const response = await this.get(at)
      if (response.location === undefined) return { ...response, at }
      at = response.location
      if (at.includes(until)) return { ...response, at }
    }
    throw new Error(`Too many redirects, the last to ${at}`)
  }

  /** The headers of requests of the page. */
  headersOf(address: string): Record<string, string> {
    return { cookie: this.cookieOf(address), ...(this.page === null ? {} : { [PAGE_HEADER]: this.page }) }
  }

  /** The value of the header with the cookies of an address. */
  cookieOf(address: string): string {
    const { host } = new URL(address)
    return [...this.cookies]
      .filter(([name]) => name.startsWith(`${host} `))
      .map(([name, value]) => `${name.slice(host.length + 1)}=${value}`)
      .join("; ")
  }

  async session(url: string) {
    const { body } = await this.get(`${url}/console/session`)
    return decodeSession(body)
  }
}

const CALLBACK = "/console/single-sign-on/callback"
const startAt = (url: string, query = "") => `${url}/console/single-sign-on${query}`

const signIn = (url: string, query = "") =>
  Effect.promise(async () => {
    const browser = new Navigator()
    const end = await browser.follow(startAt(url, query))
    return { browser, end, session: await browser.session(url) }
  })

/** The service's log: of each line its message and its attributes. */
const makeLog = () => {
  const lines: Array<unknown> = []
  const logger = Logger.make<unknown, void>(({ message }) => {
    const [text, attributes] = Array.isArray(message) ? message : [message]
    lines.push({ message: text, ...Object(attributes) })
  })
  return {
    layer: Logger.layer([logger]),
    find: (part: string) =>
      lines.find((line) => String(Reflect.get(Object(line), "message")).includes(part)) ?? {},
    text: () => JSON.stringify(lines)
  }
}

const METRICS_TOKEN = "a-token-of-sixteen-and-more"

/** Failed sign-ins in the metrics of a service. */
const failuresOf = (url: string) =>
  Effect.promise(async () => {
    const response = await fetch(`${url}/metrics`, { headers: { authorization: `Bearer ${METRICS_TOKEN}` } })
    const text = await response.text()
    const count = (reason: string) =>
      Number(
        new RegExp(`^countersign_single_sign_on_failures_total\\{reason="${reason}"\\} (\\d+)$`, "mu").exec(
          text
        )?.[1]
      )
    return { provider: count("provider"), person: count("person") }
  })

describe("SingleSignOn", () => {
  it.live("a person signs in with the access of their groups, as one identity at every sign-in", () =>
    withProvider((provider, url) =>
      Effect.gen(function* () {
        const first = yield* signIn(url, "?return_to=%2Fapprovals%3Ftab%3Dclosed")
        assert.strictEqual(first.end.at, `${url}/console/approvals?tab=closed`)
        assert.deepInclude(first.session, { organization: "acme", groups: ["finance"] })
        assert.strictEqual(first.session?.key.name, "Ada Lovelace")
        assert.include(first.session?.scopes ?? [], "approvals.decide")
        assert.notInclude(first.session?.scopes ?? [], "keys.write")
        provider.accounts.set("ada", {
          ...provider.accounts.get("ada"),
          name: "Ada King",
          groups: ["approvers", "admins"]
        })
        const second = yield* signIn(url)
        assert.strictEqual(second.session?.key.id, first.session?.key.id)
        assert.strictEqual(second.session?.key.name, "Ada King")
        assert.include(second.session?.scopes ?? [], "keys.write")
        const { client } = yield* Countersign
        const admin = yield* client({}, "acme")
        const { entries } = yield* admin.auditLog.list({ query: { target_id: first.session?.key.id ?? "" } })
        assert.deepStrictEqual(
          entries.map(({ action }) => action),
          ["console.signed_in", "person.access_changed", "console.signed_in", "person.created"]
        )
        // A person is no key: the list of keys does not have one, and nothing can be done to it there.
        const { keys } = yield* admin.apiKeys.list({ query: { limit: 100 } })
        assert.notInclude(
          keys.map(({ name }) => name),
          "Ada King"
        )
        const revoked = yield* Effect.flip(
          admin.apiKeys.revoke({ params: { id: KeyId.make(second.session?.key.id ?? "") } })
        )
        assert.strictEqual(revoked._tag, "NOT_FOUND")
        const text = yield* databaseAsText
        assert.notInclude(text, provider.clientSecret)
      })
    )
  )

  it.live("a response with a wrong state, issuer or nonce, or of another browser, signs nobody in", () =>
    withProvider((provider, url) =>
      Effect.gen(function* () {
        for (const tamper of [
          (query: URLSearchParams) => query.set("state", "A".repeat(43)),
          (query: URLSearchParams) => query.delete("state"),
          (query: URLSearchParams) => query.set("iss", "https://attacker.example"),
          (query: URLSearchParams) => query.delete("iss"),
          (query: URLSearchParams) => query.set("code", "forged"),
          (query: URLSearchParams) => query.append("state", "twice")
        ]) {
          provider.tamper = tamper
          const { end, session } = yield* signIn(url)
          assert.strictEqual(end.status, 400, end.body)
          assert.include(end.body, "You are not signed in")
          assert.isNull(session)
        }
        provider.tamper = undefined
        // The response to one browser's sign-in, opened in another browser: login CSRF.
        const [attacker, victim] = [new Navigator(), new Navigator()]
        const response = yield* Effect.promise(() => attacker.follow(startAt(url), CALLBACK))
        const stolen = yield* Effect.promise(() => victim.get(response.at))
        assert.strictEqual(stolen.status, 400)
        // Also while the victim has begun a sign-in of their own.
        yield* Effect.promise(() => victim.get(startAt(url)))
        assert.strictEqual((yield* Effect.promise(() => victim.get(response.at))).status, 400)
        assert.isNull(yield* Effect.promise(() => victim.session(url)))
      })
    )
  )

  it.live("a code is accepted once, also with the cookie of its sign-in", () =>
    withProvider((provider, url) =>
      Effect.gen(function* () {
        const browser = new Navigator()
        const response = yield* Effect.promise(() => browser.follow(startAt(url), CALLBACK))
        const cookies = new Map(browser.cookies)
        assert.strictEqual((yield* Effect.promise(() => browser.get(response.at))).status, 303)
        // The service has cleared the cookie.
        assert.strictEqual((yield* Effect.promise(() => browser.get(response.at))).status, 400)
        const copy = new Navigator()
        for (const [name, value] of cookies) copy.cookies.set(name, value)
        assert.strictEqual((yield* Effect.promise(() => copy.get(response.at))).status, 400)
        assert.isNull(yield* Effect.promise(() => copy.session(url)))
        // Not only because the provider refuses a used code: the service does not ask it again.
        assert.lengthOf(
          provider.requests.filter((request) => request === "POST /token"),
          1
        )
      })
    )
  )

  it.live("ID tokens of another nonce, audience or issuer, expired ones, and unsigned ones are refused", () =>
    withProvider((provider, url) =>
      Effect.gen(function* () {
        for (const change of [
          { nonce: "another" },
          { aud: "another client" },
          { iss: "https://attacker.example" },
          { exp: Math.floor(Date.now() / 1000) - 3600 },
          { iat: Math.floor(Date.now() / 1000) + 3600, nbf: Math.floor(Date.now() / 1000) + 3600 },
          "unsigned",
          "foreign signature"
        ] as const) {
          provider.forge = change
          const { end, session } = yield* signIn(url)
          assert.strictEqual(end.status, 400, JSON.stringify(change))
          assert.isNull(session)
        }
        // The same way of signing, without a change.
        provider.forge = {}
        assert.isNotNull((yield* signIn(url)).session)
      })
    )
  )

  it.live(
    "people whose groups give no access are refused, and lose the access and sessions that they had",
    () =>
      withProvider((provider, url) =>
        Effect.gen(function* () {
          const { browser, session } = yield* signIn(url)
          assert.isNotNull(session)
          provider.accounts.set("ada", { ...provider.accounts.get("ada"), groups: ["approver"] })
          const refused = yield* signIn(url)
          assert.strictEqual(refused.end.status, 403)
          assert.include(refused.end.body, "no access")
          assert.isNull(yield* Effect.promise(() => browser.session(url)))
          const admin = yield* (yield* Countersign).client({}, "acme")
          const { entries } = yield* admin.auditLog.list({ query: { action: "person.access_ended" } })
          assert.strictEqual(entries.length, 1)
          provider.accounts.set("ada", { ...provider.accounts.get("ada"), groups: ["admins"] })
          assert.deepStrictEqual((yield* signIn(url)).session?.key, session?.key)
        })
      )
  )

  it.live("an administrator lists people, ends their sessions, and blocks one at once and for good", () =>
    withProvider((provider, url) =>
      Effect.gen(function* () {
        const { client, key } = yield* Countersign
        const { browser, session } = yield* signIn(url)
        const id = session?.key.id ?? assert.fail("signed in")
        provider.signsIn = "bob"
        provider.accounts.set("bob", { name: "Bob", email: "bob@example.com", groups: ["admins"] })
        const bob = yield* signIn(url)
        const headers = yield* consoleHeaders(yield* key({ name: "Root" }, "acme"))
        const call = (path: string, method = "GET", caller = headers) =>
          Effect.promise(async () => {
            const response = await fetch(`${url}/console/people-records${path}`, { method, headers: caller })
            const text = await response.text()
            return { status: response.status, body: text === "" ? {} : JSON.parse(text) }
          })
        const names = (query: string) =>
          Effect.map(call(query), ({ body }) =>
            decodePeople(body).people.map(({ name, sessions, status }) => `${name} ${status} ${sessions}`)
          )
        assert.deepStrictEqual(yield* names(""), ["Bob active 1", "Ada Lovelace active 1"])
        assert.deepStrictEqual(yield* names("?text=EXAMPLE.com"), ["Bob active 1", "Ada Lovelace active 1"])
        assert.deepStrictEqual(yield* names("?text=lovelace"), ["Ada Lovelace active 1"])
        assert.deepStrictEqual(yield* names("?status=blocked"), [])
        const [listed] = decodePeople((yield* call("?text=ada")).body).people
        assert.deepInclude(listed, {
          id,
          email: "ada@example.com",
          preset: "reviewer",
          groups: ["finance"],
          blocked_at: null
        })

        // Sessions end, and she can sign in again.
        assert.deepStrictEqual((yield* call(`/${id}/sessions`, "DELETE")).body, { ended: 1 })
        assert.isNull(yield* Effect.promise(() => browser.session(url)))
        assert.deepStrictEqual((yield* call(`/${id}/sessions`, "DELETE")).body, { ended: 0 })
        provider.signsIn = "ada"
        const again = yield* signIn(url)
        assert.strictEqual(again.session?.key.id, id)

        // Blocking ends an open stream at once.
        const stream = yield* Effect.promise(() =>
          fetch(`${url}/console/inbox/stream`, { headers: again.browser.headersOf(url) })
        )
        assert.strictEqual(stream.status, 200)
        const ended = Effect.promise(async () => {
          for await (const _ of stream.body ?? []);
        })
        const before = performance.now()
        assert.strictEqual((yield* call(`/${id}/block`, "PUT")).status, 200)
        yield* ended
        assert.isBelow(performance.now() - before, 4_000)
        assert.isNull(yield* Effect.promise(() => again.browser.session(url)))
        const refused = yield* signIn(url)
        assert.strictEqual(refused.end.status, 403)
        assert.include(refused.end.body, "blocked your access")
        assert.deepStrictEqual(yield* names("?status=blocked"), ["Ada Lovelace blocked 0"])
        assert.strictEqual((yield* call(`/${id}/block`, "PUT")).status, 200)

        // Nobody blocks themselves; a reviewer blocks nobody; another organization sees nobody.
        const own = { ...headers, ...bob.browser.headersOf(url) }
        const bobId = bob.session?.key.id ?? ""
        assert.deepInclude((yield* call(`/${bobId}/block`, "PUT", own)).body, { code: "OWN_ACCESS" })
        const reviewer = yield* consoleHeaders(yield* key({ preset: "reviewer" }, "acme"))
        assert.strictEqual((yield* call("", "GET", reviewer)).status, 403)
        assert.strictEqual((yield* call(`/${bobId}/block`, "PUT", reviewer)).status, 403)
        const outsider = yield* consoleHeaders(yield* key({}, "globex"))
        for (const [path, method] of [
          ["", "GET"],
          ["/sessions", "DELETE"],
          ["/block", "PUT"],
          ["/block", "DELETE"]
        ] as const) {
          assert.strictEqual((yield* call(`/${bobId}${path}`, method, outsider)).status, 404)
        }
        assert.deepStrictEqual(decodePeople((yield* call("", "GET", outsider)).body).people, [])
        assert.isNotNull(yield* Effect.promise(() => bob.browser.session(url)))

        // Unblocked, her access comes with the next sign-in.
        assert.deepInclude((yield* call(`/${id}/block`, "DELETE")).body, { status: "ended" })
        assert.strictEqual((yield* signIn(url)).session?.key.id, id)
        assert.deepInclude((yield* call(`/${id}`)).body, { status: "active", sessions: 1 })
        const { entries } = yield* (yield* client({}, "acme")).auditLog.list({ query: { target_id: id } })
        assert.deepStrictEqual(
          entries.map(({ action }) => action).filter((action) => action.startsWith("person.")),
          [
            "person.access_changed",
            "person.unblocked",
            "person.sessions_ended",
            "person.blocked",
            "person.sessions_ended",
            "person.created"
          ]
        )
      })
    )
  )

  /** A person's key of the API, created in their browser. */
  const createKey = (url: string, browser: Navigator, name: string, more: object = { preset: "admin" }) =>
    Effect.promise(async () => {
      const response = await fetch(`${url}/console/api/v1/api-keys`, {
        method: "POST",
        headers: { ...browser.headersOf(url), origin: url, "content-type": "application/json" },
        body: JSON.stringify({ name, ...more })
      })
      return decodeCreated(await response.text())
    })

  /** The status of a request with a key. */
  const statusWith = (url: string, secret: string) =>
    Effect.promise(() =>
      fetch(`${url}/v1/api-keys`, { headers: { authorization: `Bearer ${secret}` } }).then(
        ({ status }) => status
      )
    )

  const blockedBy = (url: string, headers: Record<string, string>, path: string, method = "PUT") =>
    Effect.promise(async () => {
      const response = await fetch(`${url}/console/people-records/${path}`, { method, headers })
      return { status: response.status, body: decodeObject(await response.text()) }
    })

  it.live("whoever is blocked or loses their groups loses the keys that they made, in the same change", () =>
    withProvider((provider, url) =>
      Effect.gen(function* () {
        const { client, key } = yield* Countersign
        const groups = (...names: ReadonlyArray<string>) =>
          provider.accounts.set("ada", { ...provider.accounts.get("ada"), groups: names })
        groups("admins")
        const ada = yield* signIn(url)
        const id = ada.session?.key.id ?? assert.fail("signed in")
        const made = yield* createKey(url, ada.browser, "Ada's key")
        const admin = yield* client({ name: "Root" }, "acme")
        const root = yield* consoleHeaders(yield* key({ name: "Root's key" }, "acme"))
        const listed = yield* blockedBy(url, root, id, "GET")
        assert.strictEqual(listed.body["made_keys"], 1)
        // The key would let its maker in again.
        const own = yield* consoleHeaders(Redacted.make(made.secret))
        assert.deepInclude((yield* blockedBy(url, own, `${id}/block`, "DELETE")).body, { code: "OWN_ACCESS" })
        // A key that may only manage keys does not lock out an admin.
        const clerk = yield* consoleHeaders(yield* key({ name: "clerk", scopes: ["keys.write"] }, "acme"))
        assert.deepInclude((yield* blockedBy(url, clerk, `${id}/block`)).body, { code: "INSUFFICIENT_SCOPE" })
        const denied = yield* blockedBy(url, clerk, `${id}/sessions`, "DELETE")
        assert.deepStrictEqual([denied.status, denied.body["code"]], [403, "INSUFFICIENT_SCOPE"])
        assert.isNotNull(yield* Effect.promise(() => ada.browser.session(url)))

        // Her decision outlives her: a step that she approved and that has no outcome.
        const agent = yield* client({ name: "agent", preset: "runtime" }, "acme")
        const { session_id } = yield* agent.sessions.create({ payload: {} })
        const step = {
          params: { id: session_id },
          payload: { step_id: StepId.make("pay"), tool: "pay", action_class: "write" }
        }
        const { approval_id } = yield* agent.sessions.step(step)
        const approved = yield* Effect.promise(() =>
          fetch(`${url}/v1/agent-approvals/${approval_id ?? ""}/decide`, {
            method: "POST",
            headers: { authorization: `Bearer ${made.secret}`, "content-type": "application/json" },
            body: JSON.stringify({ decision: "approve" })
          })
        )
        assert.strictEqual(approved.status, 200)

        assert.deepInclude((yield* blockedBy(url, root, `${id}/block`)).body, { made_keys: 0 })
        assert.strictEqual(yield* statusWith(url, made.secret), 401)
        assert.strictEqual((yield* agent.sessions.step(step)).decision, "allow")
        const entryOf = (action: AuditAction, target_id: string) =>
          Effect.map(admin.auditLog.list({ query: { action, target_id } }), ({ entries }) => entries[0])
        assert.deepStrictEqual((yield* entryOf("person.blocked", id))?.detail, {
          made_keys: "revoke",
          revoked_keys: 1,
          valid_decisions: [approval_id]
        })
        assert.deepInclude((yield* entryOf("key.revoked", made.key.id))?.detail, { revoked_with: id })

        // Blocked with the keys kept, and then without.
        yield* blockedBy(url, root, `${id}/block`, "DELETE")
        const again = yield* createKey(url, (yield* signIn(url)).browser, "Ada's second key")
        const kept = yield* blockedBy(url, root, `${id}/block?made_keys=keep`)
        assert.deepInclude(kept.body, { status: "blocked", made_keys: 1 })
        assert.strictEqual(yield* statusWith(url, again.secret), 200)
        assert.deepInclude((yield* blockedBy(url, root, `${id}/block`)).body, { made_keys: 0 })
        assert.strictEqual(yield* statusWith(url, again.secret), 401)

        // By her groups: with their end, and with a change for what she no longer has.
        yield* blockedBy(url, root, `${id}/block`, "DELETE")
        const back = (yield* signIn(url)).browser
        const wide = yield* createKey(url, back, "wide", { preset: "admin", groups: ["finance", "legal"] })
        const narrow = yield* createKey(url, back, "narrow", { scopes: ["rules.write"] })
        const stream = yield* Effect.promise(() =>
          fetch(`${url}/console/inbox/stream`, { headers: back.headersOf(url) })
        )
        const ended = Effect.promise(async () => {
          for await (const _ of stream.body ?? []);
        })
        groups("approvers")
        yield* signIn(url)
        // What was open ends, and is authorized anew.
        yield* ended
        assert.include((yield* Effect.promise(() => back.session(url)))?.scopes ?? [], "approvals.read")
        assert.strictEqual(yield* statusWith(url, wide.secret), 403)
        assert.strictEqual(yield* statusWith(url, narrow.secret), 401)
        const limited = yield* admin.apiKeys.get({ params: { id: wide.key.id } })
        assert.deepStrictEqual(limited.scopes.toSorted(), [...presetScopes("reviewer")].toSorted())
        assert.deepStrictEqual([limited.preset, limited.groups], ["admin", ["finance"]])
        assert.deepInclude((yield* entryOf("key.rights_reduced", wide.key.id))?.detail, { reduced_with: id })
        groups()
        yield* signIn(url)
        assert.strictEqual(yield* statusWith(url, wide.secret), 401)
        const { revocation_reason } = yield* admin.apiKeys.get({ params: { id: wide.key.id } })
        assert.strictEqual(revocation_reason, "access_ended")
        assert.deepInclude((yield* entryOf("person.access_ended", id))?.detail, { revoked_keys: 1 })
      })
    )
  )

  it.live(
    "the service authenticates by a private key, and not by another one than the provider knows",
    () => {
      const pair = generateKeyPairSync("ec", { namedCurve: "P-256" })
      const other = generateKeyPairSync("ec", { namedCurve: "P-256" })
      const known = { ...pair.publicKey.export({ format: "jwk" }), kid: "one", alg: "ES256", use: "sig" }
      const withKey = (key: KeyObject) => ({
        COUNTERSIGN_OIDC_CLIENT_KEY: key.export({ type: "pkcs8", format: "pem" }).toString(),
        COUNTERSIGN_OIDC_CLIENT_KEY_ID: "one"
      })
      return Effect.gen(function* () {
        yield* withProvider(
          (_provider, url) =>
            Effect.gen(function* () {
              assert.strictEqual((yield* signIn(url)).session?.key.name, "Ada Lovelace")
            }),
          withKey(pair.privateKey),
          known
        )
        yield* withProvider(
          (_provider, url) =>
            Effect.gen(function* () {
              const { end, session } = yield* signIn(url)
              assert.isNull(session)
              assert.strictEqual(end.status, 400)
            }),
          withKey(other.privateKey),
          known
        )
      })
    }
  )

  it.live("a logout at the provider ends the sessions of its session, or all of a person", () =>
    withProvider((provider, url) =>
      Effect.gen(function* () {
        const sql = yield* SqlClient.SqlClient
        const first = yield* signIn(url)
        const [row] = yield* sql<{ readonly sid: string | null }>`
          SELECT provider_session AS sid FROM console_sessions WHERE provider_session IS NOT NULL
        `
        const sid = row?.sid ?? assert.fail("the provider states its session")
        const second = yield* signIn(url)
        const stream = yield* Effect.promise(() =>
          fetch(`${url}/console/inbox/stream`, { headers: first.browser.headersOf(url) })
        )
        const ended = Effect.promise(async () => {
          for await (const _ of stream.body ?? []);
        })
        yield* Effect.promise(() => provider.logOut("ada", sid))
        yield* ended
        assert.isNull(yield* Effect.promise(() => first.browser.session(url)))
        assert.isNotNull(yield* Effect.promise(() => second.browser.session(url)))

        const send = (token: string) => sendLogout(url, token)
        const token = logoutClaims(provider)
        const now = token.iat
        const { events: _events, ...idToken } = token
        const { sub: _sub, ...nobody } = token
        for (const refused of [
          "",
          "not a token",
          provider.signToken(token, "foreign"),
          provider.signToken(token, "client secret"),
          provider.signToken(token, "none"),
          provider.signToken({ ...token, aud: "another client" }),
          provider.signToken({ ...token, iss: "http://127.0.0.1:1" }),
          provider.signToken({ ...token, iat: now - 3_600 }),
          provider.signToken({ ...token, exp: now - 3_600 }),
          provider.signToken({ ...token, nonce: "of an ID token" }),
          provider.signToken({ ...token, events: { "http://schemas.openid.net/event/other": {} } }),
          provider.signToken(idToken),
          provider.signToken(nobody),
          "x".repeat(100_000)
        ]) {
          const response = yield* send(refused)
          assert.strictEqual(response.status, 400, refused.slice(0, 100))
          assert.strictEqual(response.headers.get("cache-control"), "no-store")
        }
        assert.isNotNull(yield* Effect.promise(() => second.browser.session(url)))

        // One that was issued before the sign-in, or for another person or session, is accepted and ends nothing.
        for (const other of [
          { ...token, iat: now - 200 },
          { ...token, sub: "somebody else" },
          { ...token, sid: "another session" },
          { ...nobody, sid }
        ]) {
          assert.strictEqual((yield* send(provider.signToken(other))).status, 200)
        }
        assert.isNotNull(yield* Effect.promise(() => second.browser.session(url)))
        const response = yield* send(provider.signToken(token))
        assert.strictEqual(response.status, 200)
        assert.isNull(yield* Effect.promise(() => second.browser.session(url)))
        assert.isNotNull((yield* signIn(url)).session)

        const { client } = yield* Countersign
        const { entries } = yield* (yield* client({}, "acme")).auditLog.list({
          query: { action: "person.sessions_ended" }
        })
        assert.deepStrictEqual(
          entries.map(({ actor, detail }) => [actor?.name, detail["by"], detail["sessions"]]),
          [
            ["Ada Lovelace", "single logout", 1],
            ["Ada Lovelace", "single logout", 1]
          ]
        )
      })
    )
  )

  it.live("the provider is asked to send a logout again while its keys cannot be read", () =>
    withProvider((provider, url) =>
      Effect.gen(function* () {
        const { browser } = yield* signIn(url)
        const send = sendLogout(url, provider.signToken(logoutClaims(provider)))
        provider.failing = "/jwks"
        assert.strictEqual((yield* send).status, 503)
        provider.failing = undefined
        yield* Effect.promise(() => provider.stop())
        assert.strictEqual((yield* send).status, 503)
        assert.isNotNull(yield* Effect.promise(() => browser.session(url)))
      })
    )
  )

  it.live("the provider is asked to send a logout again that a key signs which is not read yet", () =>
    withProvider((provider, url) =>
      Effect.gen(function* () {
        const send = Effect.suspend(() => sendLogout(url, provider.signToken(logoutClaims(provider))))
        assert.strictEqual((yield* send).status, 200)
        yield* Effect.promise(() => provider.stop())
        yield* Effect.promise(() => provider.restart())
        // On a slow machine the keys may be read again.
        assert.include([200, 503], (yield* send).status)
      })
    )
  )

  it.live("who has access to two organizations chooses one, and is another identity in each", () =>
    withProvider((provider, url) =>
      Effect.gen(function* () {
        provider.accounts.set("ada", { ...provider.accounts.get("ada"), groups: ["approvers", "globex"] })
        const { end, session } = yield* signIn(url)
        assert.isNull(session)
        assert.include(end.body, "Choose an organization")
        assert.notInclude(end.body, "not there")
        const acme = (yield* signIn(url, "?organization=acme")).session
        const globex = (yield* signIn(url, "?organization=globex")).session
        assert.deepStrictEqual([acme?.organization, globex?.organization], ["acme", "globex"])
        assert.notStrictEqual(acme?.key.id, globex?.key.id)
        assert.deepStrictEqual([acme?.groups, globex?.groups], [["finance"], []])
        assert.strictEqual((yield* signIn(url, "?organization=not+there")).end.status, 403)
        // Access to one ends without a word about the other.
        provider.accounts.set("ada", { ...provider.accounts.get("ada"), groups: ["globex"] })
        assert.strictEqual((yield* signIn(url)).session?.key.id, globex?.key.id)
      })
    )
  )

  it.live(
    "a provider that is down is told from a refusal, keys still sign in, and new keys of it are read",
    () =>
      withProvider((provider, url) =>
        Effect.gen(function* () {
          assert.isNotNull((yield* signIn(url)).session)
          yield* Effect.promise(() => provider.stop())
          const browser = new Navigator()
          const begun = yield* Effect.promise(() => browser.get(startAt(url)))
          // The metadata is cached: the provider's page does not open.
          assert.strictEqual(begun.status, 303)
          yield* Effect.promise(() => provider.restart())
          const response = yield* Effect.promise(() => browser.follow(begun.location ?? "", CALLBACK))
          yield* Effect.promise(() => provider.stop())
          const down = yield* Effect.promise(() => browser.get(response.at))
          assert.strictEqual(down.status, 503)
          assert.include(down.body, "sign in with an API key")
          const { key } = yield* Countersign
          const secret = yield* key({}, "acme")
          const byKey = yield* Effect.promise(() =>
            fetch(`${url}/console/session`, {
              method: "POST",
              headers: { origin: url, "content-type": "application/json" },
              body: JSON.stringify({ key: Redacted.value(secret) })
            })
          )
          assert.strictEqual(byKey.status, 200)
          // With other keys than those that the service knows.
          yield* Effect.promise(() => provider.restart())
          yield* Effect.sleep("5 seconds")
          assert.isNotNull((yield* signIn(url)).session)
        })
      )
  )

  it.live.each([{ issuer: "https://attacker.example" }, { token_endpoint: "http://10.0.0.1/token" }])(
    "metadata that is not accepted is told from a provider that is down, also while it is not read again: %j",
    (metadata) =>
      withProvider((provider, url) =>
        Effect.gen(function* () {
          provider.metadata = metadata
          for (let count = 0; count < 2; count++) {
            const { end } = yield* signIn(url)
            assert.strictEqual(end.status, 400)
            assert.include(end.body, "response was not accepted")
          }
          // The provider may send a logout token again: the service cannot tell yet whether to refuse it.
          const logout = yield* Effect.promise(() =>
            fetch(`${url}/console/single-sign-on/logout`, {
              method: "POST",
              body: new URLSearchParams({ logout_token: "token" })
            })
          )
          assert.strictEqual(logout.status, 503)
        })
      )
  )

  it.live("only verified addresses of the allowed domains sign in", () =>
    withProvider(
      (provider, url) =>
        Effect.gen(function* () {
          const account = provider.accounts.get("ada") ?? {}
          for (const [email, email_verified, status] of [
            ["ada@example.com", true, 200],
            ["ada@EXAMPLE.com", true, 200],
            ["ada@example.com", "true", 200],
            ["ada@example.com", false, 403],
            ["ada@example.com", "false", 403],
            ["ada@example.com.attacker.example", true, 403],
            ["example.com@attacker.example", true, 403]
          ] as const) {
            provider.accounts.set("ada", { ...account, email, email_verified })
            const { session } = yield* signIn(url)
            assert.strictEqual(session !== null, status === 200, email)
          }
        }),
      { COUNTERSIGN_OIDC_EMAIL_DOMAINS: "example.org,example.com" }
    )
  )

  it.live("a person whose verified address is of another domain now loses the access that they had", () =>
    withProvider(
      (provider, url) =>
        Effect.gen(function* () {
          const account = provider.accounts.get("ada") ?? {}
          const { browser } = yield* signIn(url)
          const session = Effect.promise(() => browser.session(url))
          // An address that is not verified is no proof that the person is somebody else's.
          provider.accounts.set("ada", { ...account, email: "ada@example.net", email_verified: false })
          assert.isNull((yield* signIn(url)).session)
          assert.isNotNull(yield* session)
          provider.accounts.set("ada", { ...account, email: "ada@example.net", email_verified: true })
          const refused = yield* signIn(url)
          assert.strictEqual(refused.end.status, 403)
          assert.isNull(yield* session)
          const admin = yield* (yield* Countersign).client({}, "acme")
          const { entries } = yield* admin.auditLog.list({ query: { action: "person.access_ended" } })
          assert.lengthOf(entries, 1)
        }),
      { COUNTERSIGN_OIDC_EMAIL_DOMAINS: "example.com" }
    )
  )

  it.live.each([{}, { userinfo_signed_response_alg: "ES256" }, { userinfo_signed_response_alg: "Ed25519" }])(
    "claims that the ID token has not come from the userinfo, also from a signed one: %j",
    (client) => {
      const log = makeLog()
      return withProvider(
        (provider, url) =>
          Effect.gen(function* () {
            const features = {
              devInteractions: { enabled: false },
              backchannelLogout: { enabled: true },
              jwtUserinfo: { enabled: true }
            }
            // As providers that sign and do not state how.
            provider.metadata = { userinfo_signing_alg_values_supported: undefined }
            // Then the ID token has the subject only.
            yield* Effect.promise(() => provider.restart({ conformIdTokenClaims: true, features }, client))
            const { session } = yield* signIn(url)
            assert.deepInclude(session?.key, { name: "Ada Lovelace" })
            provider.accounts.set("ada", { email: "ada@example.com", email_verified: "perhaps" })
            assert.isNull((yield* signIn(url)).session)
            assert.deepInclude(log.find("a claim cannot be read"), {
              claim: "email_verified",
              expected: "true or false",
              got: "a value of the type string"
            })
          }),
        { COUNTERSIGN_OIDC_EMAIL_DOMAINS: "example.com" }
      ).pipe(Effect.provide(log.layer))
    }
  )

  it.live("a person keeps their address if the userinfo that has it cannot be read", () =>
    withProvider((provider, url) =>
      Effect.gen(function* () {
        const sql = yield* SqlClient.SqlClient
        const first = yield* signIn(url)
        const stored = sql`SELECT name, email FROM api_keys WHERE key_id = ${first.session?.key.id ?? ""}`
        const ada = { name: "Ada Lovelace", email: "ada@example.com" }
        provider.failing = "/me"
        for (const forge of [
          { name: undefined, email: undefined, email_verified: undefined },
          { email: undefined },
          { email_verified: undefined }
        ]) {
          provider.forge = forge
          const { end, session } = yield* signIn(url)
          assert.deepStrictEqual([end.status, session], [503, null], JSON.stringify(Object.keys(forge)))
          assert.include(end.body, "did not respond")
          assert.deepStrictEqual(yield* stored, [ada])
        }
        provider.failing = undefined
        assert.isNotNull((yield* signIn(url)).session)
        assert.deepStrictEqual(yield* stored, [ada])
        // The name alone keeps nobody out.
        provider.failing = "/me"
        provider.forge = { name: undefined }
        assert.isNotNull((yield* signIn(url)).session)
      })
    )
  )

  it.live("a refused person is in the log with the subject and the groups that the provider stated", () => {
    const log = makeLog()
    return withProvider(
      (provider, url) =>
        Effect.gen(function* () {
          provider.accounts.set("ada", { name: "Ada", groups: ["marketing", "sales"] })
          const { end, session } = yield* signIn(url)
          assert.isNull(session)
          assert.include(end.body, "which group of your identity provider gives it")
          assert.deepInclude(log.find("a person was refused"), {
            message:
              "Single sign-on: a person was refused: no rule of COUNTERSIGN_OIDC_ACCESS has one of their groups",
            subject: "ada",
            groups: ["marketing", "sales"],
            groups_claim: "groups"
          })
          assert.deepStrictEqual(yield* failuresOf(url), { provider: 0, person: 1 })
        }),
      { COUNTERSIGN_METRICS_TOKEN: METRICS_TOKEN }
    ).pipe(Effect.provide(log.layer))
  })

  it.live("a wrong client secret is named in the log, and the page does not blame the network", () => {
    const log = makeLog()
    return withProvider(
      (_provider, url) =>
        Effect.gen(function* () {
          const { end, session } = yield* signIn(url)
          assert.isNull(session)
          assert.include(end.body, "response was not accepted")
          assert.deepInclude(log.find("refused the service's client"), {
            message: "Single sign-on: the identity provider refused the service's client ID, secret or key",
            error: "invalid_client"
          })
          assert.notInclude(log.text(), "another-secret")
          assert.deepStrictEqual(yield* failuresOf(url), { provider: 1, person: 0 })
        }),
      { COUNTERSIGN_OIDC_CLIENT_SECRET: "another-secret", COUNTERSIGN_METRICS_TOKEN: METRICS_TOKEN }
    ).pipe(Effect.provide(log.layer))
  })

  it.live("after the vote of a person, neither their key nor one that it made adds a second one", () =>
    withProvider((provider, url) =>
      Effect.gen(function* () {
        const { client, clientWith } = yield* Countersign
        const admin = yield* client({ name: "Root" }, "acme")
        provider.accounts.set("ada", { ...provider.accounts.get("ada"), groups: ["admins"] })
        yield* admin.approvalRules.replace({
          payload: { rules: [{ effect: "require_approval", quorum: [{ count: 2, group: null }] }] }
        })
        const agent = yield* client({ name: "agent", preset: "runtime" }, "acme")
        const { session_id } = yield* agent.sessions.create({})
        const { approval_id: id } = yield* agent.sessions.step({
          params: { id: session_id },
          payload: { step_id: StepId.make("pay"), tool: "pay", action_class: "write" }
        })
        const params = { id: id ?? assert.fail("the step waits") }
        const ada = yield* signIn(url)
        const voted = yield* Effect.promise(() =>
          fetch(`${url}/console/api/v1/agent-approvals/${params.id}/decide`, {
            method: "POST",
            headers: { ...ada.browser.headersOf(url), origin: url, "content-type": "application/json" },
            body: JSON.stringify({ decision: "approve" })
          })
        )
        assert.strictEqual(voted.status, 200)
        // The key got her address after the vote.
        const own = yield* admin.apiKeys.create({
          payload: { name: "Ada's key", preset: "admin", email: "ADA@Example.com" }
        })
        const ownClient = yield* clientWith(Redacted.make(own.secret))
        const made = yield* ownClient.apiKeys.create({ payload: { name: "made by it", preset: "admin" } })
        const payload = { decision: "approve" } as const
        for (const { approvals } of [ownClient, yield* clientWith(Redacted.make(made.secret))])
          assert.strictEqual((yield* Effect.flip(approvals.decide({ params, payload })))._tag, "SAME_PERSON")
        const other = yield* client({ name: "Grace", preset: "reviewer" }, "acme")
        assert.strictEqual((yield* other.approvals.decide({ params, payload })).status, "approved")
      })
    )
  )

  it.live(
    "one human being counts once: their key with the same verified address, in any case, made the person, for quorums",
    () =>
      withProvider((_provider, url) =>
        Effect.gen(function* () {
          const countersign = yield* Countersign
          const adminKey = yield* countersign.key({ name: "Root" }, "acme")
          const admin = yield* countersign.clientWith(adminKey)
          const { key } = yield* admin.apiKeys.create({
            payload: { name: "Ada's key", preset: "reviewer", email: "ADA@Example.com" }
          })
          const { session } = yield* signIn(url)
          const sql = yield* SqlClient.SqlClient
          const makers = () =>
            Effect.map(
              sql<{ readonly makers: ReadonlyArray<string> }>`
              SELECT ${identityMakers(sql)} AS makers FROM api_keys WHERE key_id = ${session?.key.id ?? ""}
            `,
              ([row]) => row?.makers
            )
          assert.include((yield* makers()) ?? [], key.id)
          // Nor does a key of hers let her in again.
          const own = yield* admin.apiKeys.create({
            payload: { name: "Ada's admin key", preset: "admin", email: "ada@Example.com" }
          })
          const headers = yield* consoleHeaders(Redacted.make(own.secret))
          const path = `${session?.key.id ?? ""}/block`
          assert.strictEqual((yield* blockedBy(url, headers, path)).status, 200)
          assert.deepInclude((yield* blockedBy(url, headers, path, "DELETE")).body, { code: "OWN_ACCESS" })
          const { apiKeys } = yield* countersign.clientWith(Redacted.make(own.secret))
          const made = yield* apiKeys.create({ payload: { name: "made by it", preset: "admin" } })
          const madeHeaders = yield* consoleHeaders(Redacted.make(made.secret))
          assert.deepInclude((yield* blockedBy(url, madeHeaders, path, "DELETE")).body, {
            code: "OWN_ACCESS"
          })
          yield* sql`UPDATE email_addresses SET verified_at = NULL`
          assert.deepStrictEqual(yield* makers(), [])
        })
      )
  )

  it.live("a sign-in starts at the console's own pages only, and leads to a path of the console only", () =>
    withProvider((_provider, url) =>
      Effect.gen(function* () {
        const browser = new Navigator()
        const crossSite = yield* Effect.promise(() =>
          browser.get(startAt(url), { "sec-fetch-site": "cross-site" })
        )
        assert.deepStrictEqual([crossSite.status, crossSite.setCookie.join()], [400, ""])
        for (const target of [
          "https://attacker.example/",
          "//attacker.example",
          "/\\attacker.example",
          "/a\nb"
        ]) {
          const { end } = yield* signIn(url, `?${new URLSearchParams({ return_to: target }).toString()}`)
          assert.strictEqual(end.at, `${url}/console/`, target)
        }
        const begun = yield* Effect.promise(() => browser.get(startAt(url)))
        const [cookie = ""] = begun.setCookie
        assert.match(cookie, /HttpOnly/i)
        assert.match(cookie, /SameSite=Lax/i)
        const location = new URL(begun.location ?? "")
        assert.strictEqual(location.searchParams.get("code_challenge_method"), "S256")
        assert.strictEqual(location.searchParams.get("response_type"), "code")
        // None of the three secrets can be read from the address.
        for (const value of ["state", "nonce", "code_challenge"]) {
          assert.notInclude(cookie, location.searchParams.get(value) ?? assert.fail(value))
        }
      })
    )
  )
})
