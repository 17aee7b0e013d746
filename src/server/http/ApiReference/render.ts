import { Effect } from "effect"
import { HttpRouter } from "effect/http"
import { HttpApiScalar, OpenApi } from "effect/http-api"
import { createHash } from "node:crypto"
import { Api } from "../../../api/Api.ts"
import { openApiDocument } from "../../../api/openApiDocument.ts"
import { type EncodedDocument, encodeDocument } from "./EncodedDocument.ts"

/** The bodies of `/openapi.json` and `/docs`. */
export interface RenderedReference {
  readonly openApi: EncodedDocument
  readonly page: ReferencePage
}

const makeDocument: Effect.Effect<EncodedDocument> = Effect.promise(() =>
  encodeDocument(JSON.stringify(openApiDocument()), "application/json")
)

/** The page of `/docs`, and its Content Security Policy. */
export interface ReferencePage {
  readonly document: EncodedDocument
  readonly policy: string
}

/**
 * Everything that would load from or send to other hosts is off: fonts, the button that opens the vendor's client, and the
 * developer tools, which upload the document.
 */
const scalar = {
  withDefaultFonts: false,
  hideClientButton: true,
  showDeveloperTools: "never",
  telemetry: false,
  agent: { disabled: true },
  mcp: { disabled: true },
  authentication: { preferredSecurityScheme: "api_key" },
  favicon: "/favicon.ico"
}

/** The API whose generated document is the published one. */
const documentedApi = Api.annotate(OpenApi.Transform, () => openApiDocument())

const makePage = Effect.promise(async (): Promise<ReferencePage> => {
  const { dispose, handler } = HttpRouter.toWebHandler(
    HttpApiScalar.layer(documentedApi, { path: "/docs", scalar }),
    // It would log these internal requests.
    { disableLogger: true }
  )
  const html = await (await handler(new Request("http://localhost/docs"))).text()
  await dispose()
  return { document: await encodeDocument(html, "text/html; charset=utf-8"), policy: policyOf(html) }
})

/** Renders both documents. */
export const renderReference: Effect.Effect<RenderedReference> = Effect.all({
  openApi: makeDocument,
  page: makePage
})

/**
 * Only the page's own two scripts run, and they reach only this service. Styles may be inline, because the page's script inserts its style
 * sheet as an element.
 */
const policyOf = (html: string): string => {
  const hashes = [...html.matchAll(/<script>([\s\S]*?)<\/script>/g)].map(
    ([, script = ""]) => `'sha256-${createHash("sha256").update(script).digest("base64")}'`
  )
  return [
    "default-src 'none'",
    `script-src ${hashes.join(" ")}`,
    "style-src 'unsafe-inline'",
    "img-src 'self' data:",
    "font-src 'self' data:",
    "connect-src 'self'",
    "base-uri 'none'",
    "form-action 'none'",
    "frame-ancestors 'none'"
  ].join("; ")
}
