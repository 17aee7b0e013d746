/** Requests to the identity provider, bounded in time and size. */

/** `fetch` as the OAuth library calls it. */
export type HttpFetch = (
  url: string,
  request: {
    readonly method: string
    readonly headers: Record<string, string>
    readonly body?: string | URLSearchParams | ReadableStream | Uint8Array | ArrayBuffer | null | undefined
  }
) => Promise<Response>

/** Longest exchange with the provider. */
const TIMEOUT_MS = 5_000

/** Largest response: metadata, keys and tokens are a few KiB. */
const MAX_BYTES = 256 * 1024

/** Statuses of responses without a body, which must not get one. */
const BODILESS: ReadonlySet<number> = new Set([101, 103, 204, 205, 304])

const readBytes = async (response: Response): Promise<Uint8Array> => {
  const chunks: Array<Uint8Array> = []
  let size = 0
  // Leaving the loop cancels the rest.
  for await (const chunk of response.body ?? []) {
    size += chunk.byteLength
    if (size > MAX_BYTES) throw new Error("The identity provider's response is too large")
    chunks.push(chunk)
  }
  return Buffer.concat(chunks)
}

/** A `fetch` that requests allowed URLs only, follows no redirect, and ends within five seconds. */
export const makeBoundedFetch =
  (isAllowed: (url: URL) => boolean): HttpFetch =>
  async (text, { body, headers: sent, method }) => {
    const url = new URL(text)
    if (!isAllowed(url)) throw new Error("An address that is not the identity provider's")
    const response = await fetch(url, {
      method,
      headers: sent,
      body: body instanceof URLSearchParams ? body.toString() : typeof body === "string" ? body : null,
      redirect: "manual",
      signal: AbortSignal.timeout(TIMEOUT_MS)
    })
    const bytes = await readBytes(response)
    const { headers, status } = response
    return new Response(BODILESS.has(status) ? null : Buffer.from(bytes), { headers, status })
  }
