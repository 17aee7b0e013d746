import { assert, describe, it } from "@effect/vitest"
import {
  lacksClaims,
  personOf,
  unreadableClaims,
  withUserinfo
} from "../../../../src/server/console/SingleSignOn/claims.ts"

const settings = { issuer: "https://id.example.com", groupsClaim: "groups" }
const person = (claims: Readonly<Record<string, unknown>>) => personOf({ sub: "7", ...claims }, settings)

describe("SingleSignOn claims", () => {
  it.each([
    [true, true],
    [false, false],
    [undefined, false],
    [null, false],
    ["true", true],
    ["false", false],
    ["TRUE", false],
    [1, false],
    [{}, false]
  ])("an address is verified only if email_verified is true: %j", (email_verified, expected) => {
    const claims = { email: "ada@example.com", ...(email_verified === undefined ? {} : { email_verified }) }
    assert.deepInclude(person(claims), { email: "ada@example.com", isEmailVerified: expected })
  })

  it.each([
    ["ada@example.com", "ada@example.com"],
    [" ada@example.com ", "ada@example.com"],
    [`${"a".repeat(242)}@example.com`, `${"a".repeat(242)}@example.com`],
    [`${"a".repeat(243)}@example.com`, null],
    ["ada", null],
    ["ada@", null],
    ["a@b@example.com", null],
    ["Ada <ada@example.com>", null],
    ["ada@example.com,eve@example.com", null],
    ["ada@exam\u200bple.com", null],
    ["", null],
    [["ada@example.com"], null],
    [undefined, null]
  ])("a claim that is no address counts as absent, and is not verified: %j", (email, expected) => {
    assert.deepInclude(person({ email, email_verified: true }), {
      email: expected,
      isEmailVerified: expected !== null
    })
  })

  it.each([
    [{ name: "Ada", preferred_username: "ada", email: "ada@example.com" }, "Ada"],
    [{ name: " ", preferred_username: "ada", email: "ada@example.com" }, "ada"],
    [{ name: "a".repeat(150) }, "a".repeat(150)],
    [{ name: "a".repeat(151), preferred_username: "ada" }, "ada"],
    [{ name: 7, preferred_username: null, email: "ada@example.com" }, "ada@example.com"],
    [{ name: "Ada\u202eevE" }, "7"]
  ])("a person without a name as a line of text has the next claim as name: %j", (claims, name) => {
    assert.strictEqual(person(claims).name, name)
  })

  it("groups are found by the claim's name, which can have dots, or by a path", () => {
    const groupsOf = (groupsClaim: string, claims: object) =>
      personOf({ sub: "7", ...claims }, { ...settings, groupsClaim }).groups
    assert.deepStrictEqual(groupsOf("realm_access.roles", { realm_access: { roles: ["a"] } }), ["a"])
    const name = "https://example.com/groups"
    assert.deepStrictEqual(groupsOf(name, { [name]: ["a"], "https://example": { "com/groups": ["b"] } }), [
      "a"
    ])
    for (const claims of [{}, { realm_access: null }, { realm_access: "roles" }, { realm_access: [] }]) {
      assert.deepStrictEqual(groupsOf("realm_access.roles", claims), [])
    }
    assert.deepStrictEqual(groupsOf("constructor.name", {}), [])
  })

  it("userinfo completes the claims of the ID token, and says nothing about another address", () => {
    const token = { sub: "7", name: "Ada", email: "ada@example.com", groups: ["a"] }
    const verified = { sub: "7", email_verified: true }
    assert.isTrue(lacksClaims(token, "groups"))
    assert.isFalse(lacksClaims({ ...token, email_verified: false }, "groups"))
    const complete = withUserinfo(token, { ...verified, email: "ada@example.com", groups: ["admins"] })
    assert.deepInclude(complete, { email_verified: true, groups: ["a"] })
    const other = withUserinfo(token, { ...verified, email: "eve@example.com" })
    assert.deepInclude(other, { email: "ada@example.com" })
    assert.notProperty(other, "email_verified")
    assert.deepInclude(withUserinfo({ sub: "7" }, { ...verified, email: "ada@example.com" }), {
      email: "ada@example.com",
      email_verified: true
    })
  })

  it("claims of another type are named with what is expected and what came, and never with their value", () => {
    assert.deepStrictEqual(
      unreadableClaims({ sub: "7", groups: ["a"], email_verified: "true" }, "groups"),
      []
    )
    assert.deepStrictEqual(unreadableClaims({ sub: "7" }, "groups"), [])
    assert.deepStrictEqual(
      unreadableClaims({ sub: "7", groups: { secret: 1 }, email_verified: 1 }, "groups"),
      [
        { claim: "groups", expected: "a text or a list of texts", got: "a value of the type object" },
        { claim: "email_verified", expected: "true or false", got: "a value of the type number" }
      ]
    )
    assert.strictEqual(unreadableClaims({ sub: "7", groups: [{}] }, "groups")[0]?.got, "a list")
  })

  it("groups are the texts of the claim, also of a single one, and at most the first thousand", () => {
    assert.deepStrictEqual(person({ groups: ["a", 7, null, "b"] }).groups, ["a", "b"])
    assert.deepStrictEqual(person({ groups: "a" }).groups, ["a"])
    assert.deepStrictEqual(person({}).groups, [])
    const many = Array.from({ length: 1_001 }, (_, index) => String(index))
    assert.deepStrictEqual(person({ groups: many }).groups, many.slice(0, 1_000))
  })
})
