import { HttpServerResponse } from "effect/http"
import type { HttpServerRequest } from "effect/http"
import { createHash } from "node:crypto"
import { promisify } from "node:util"
import { brotliCompress, constants, gzip } from "node:zlib"
import { preferredEncoding } from "../preferredEncoding.ts"

/** A document with its encodings. All responses share these bytes, so that unread responses take no memory of their own. */
export interface EncodedDocument {
  readonly contentType: string
  readonly etag: string
  readonly identity: Uint8Array
  readonly gzip: Uint8Array
  readonly br: Uint8Array
}

/** Of the smaller qualities, the one after which the size hardly falls. The highest takes ten seconds for the API reference. */
const BROTLI_QUALITY = 6

const gzipped = promisify(gzip)
const brotli = promisify(brotliCompress)

/** Compresses a document, on other threads. */
export const encodeDocument = async (text: string, contentType: string): Promise<EncodedDocument> => {
  const identity = Buffer.from(text)
  const params = {
    [constants.BROTLI_PARAM_QUALITY]: BROTLI_QUALITY,
    [constants.BROTLI_PARAM_SIZE_HINT]: identity.length
  }
  const [asGzip, asBrotli] = await Promise.all([gzipped(identity), brotli(identity, { params })])
  const etag = `"${createHash("sha256").update(identity).digest("base64url").slice(0, 22)}"`
  return { contentType, etag, identity, gzip: asGzip, br: asBrotli }
}

/** The response with the encoding that the client prefers, or 304 if the client has the document. */
export const respondWith = (
  document: EncodedDocument,
  { headers: request }: Pick<HttpServerRequest.HttpServerRequest, "headers">,
  extraHeaders: Readonly<Record<string, string>>
): HttpServerResponse.HttpServerResponse => {
  const encoding = preferredEncoding(request["accept-encoding"] ?? "")
  // Encodings are different representations, which need different strong validators (RFC 9110, 8.8.3.3).
  const etag = encoding === "identity" ? document.etag : `${document.etag.slice(0, -1)}-${encoding}"`
  const headers = {
    ...extraHeaders,
    etag,
    vary: "accept-encoding",
    // The document changes with the version of the service, whose number is not part of the URL.
    "cache-control": "no-cache"
  }
  if (matches(request["if-none-match"] ?? "", etag)) return HttpServerResponse.empty({ status: 304, headers })
  return HttpServerResponse.uint8Array(document[encoding], {
    headers: encoding === "identity" ? headers : { ...headers, "content-encoding": encoding },
    contentType: document.contentType
  })
}

const matches = (condition: string, etag: string): boolean =>
  condition.trim() === "*" || condition.split(",").some((one) => one.trim().replace(/^W\//, "") === etag)
