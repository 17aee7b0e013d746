import { assert, describe, it } from "@effect/vitest"
import { mkdtempSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import path from "node:path"
import { fileURLToPath } from "node:url"
import { type Checker, type Symbol, type Type, API, SignatureKind } from "typescript/unstable/sync"
import { operations } from "../support/seedOneOfEach/operations.ts"

const root = fileURLToPath(new URL("../..", import.meta.url))
const source = `import { connect } from ${JSON.stringify(path.join(root, "src/client/index.ts"))}
const countersign = connect({ url: "http://127.0.0.1:8080", key: "csk_" })
`

/** The client's documentation in an editor: TypeScript's own answers for a program that uses it. */
const withEditor = (use: (checker: Checker, client: Type) => void) => {
  const directory = mkdtempSync(path.join(tmpdir(), "countersign-editor-"))
  const file = path.join(directory, "program.ts")
  const config = path.join(directory, "tsconfig.json")
  writeFileSync(file, source)
  writeFileSync(
    config,
    JSON.stringify({
      extends: path.join(root, "tsconfig.json"),
      include: [file],
      compilerOptions: { types: [] }
    })
  )
  const api = new API({ cwd: root })
  try {
    const project = api.updateSnapshot({ openProjects: [config] }).getProject(config)
    assert.isDefined(project)
    const { checker } = project
    const client = checker.getTypeAtPosition(file, source.indexOf("countersign ="))
    assert.isDefined(client)
    use(checker, client)
  } finally {
    api.close()
    rmSync(directory, { recursive: true, force: true })
  }
}

/** Members that the platform's own types have. */
const PLATFORM = /\/node_modules\/|\/lib\.[\w.]+\.d\.ts/

const isOwn = (symbol: Symbol): boolean =>
  symbol.declarations.length > 0 && symbol.declarations.every(({ path: file }) => !PLATFORM.test(file))

/** Every member that is reached from a type by members, parameters and results, by its path. */
const membersOf = (checker: Checker, from: Type): ReadonlyMap<string, Symbol> => {
  const found = new Map<string, Symbol>()
  const seen = new Set<number>()
  const visit = (type: Type | undefined, place: string): void => {
    if (type === undefined || seen.has(type.id)) return
    seen.add(type.id)
    for (const part of type.isUnionType() || type.isIntersectionType() ? (type.getTypes() ?? []) : [])
      visit(part, place)
    if (!type.isObjectType()) return
    if (type.isTypeReference()) {
      for (const argument of checker.getTypeArguments(type)) visit(argument, place)
    }
    for (const signature of checker.getSignaturesOfType(type, SignatureKind.Call)) {
      for (const parameter of signature.getParameters()) visit(checker.getTypeOfSymbol(parameter), place)
      visit(checker.getReturnTypeOfSignature(signature), place)
    }
    for (const member of checker.getPropertiesOfType(type)) {
      if (!isOwn(member)) continue
      const name = `${place}.${member.name}`
      found.set(name, member)
      visit(checker.getTypeOfSymbol(member), name)
    }
  }
  visit(from, "countersign")
  return found
}

describe("an editor's hover", () => {
  it(
    "shows documentation for every operation and every field of the promise client",
    { timeout: 120_000 },
    () =>
      withEditor((checker, client) => {
        const members = membersOf(checker, client)
        assert.isAbove(members.size, 400)
        for (const { name } of operations) {
          if (name !== "sessions.stream") assert.isTrue(members.has(`countersign.${name}`), name)
        }
        const undocumented = [...members].flatMap(([name, symbol]) =>
          symbol.getDocumentationComment(checker).trim() === "" ? [name] : []
        )
        assert.deepStrictEqual(undocumented, [])
        const decide = members.get("countersign.approvals.decide")
        assert.isDefined(decide)
        assert.include(decide.getDocumentationComment(checker), "A rejection closes it")
      })
  )

  it("shows short types", { timeout: 120_000 }, () =>
    withEditor((checker, client) => {
      const members = membersOf(checker, client)
      const typeOf = (name: string) => {
        const symbol = members.get(`countersign.${name}`)
        const type = symbol && checker.getTypeOfSymbol(symbol)
        return type === undefined ? "" : checker.typeToString(type)
      }
      assert.strictEqual(
        typeOf("approvals.decide"),
        "(input: DecideApprovalInput, options?: CallOptions | undefined) => CallPromise<DecidedApproval>"
      )
      for (const { name } of operations) assert.isBelow(typeOf(name).length, 130, name)
    })
  )
})
