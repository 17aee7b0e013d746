/**
 * The header with the part of a session's token that the page keeps, of requests and of the response to a sign-in. Over HTTP on loopback, a
 * browser sends its cookies to the servers of every port, so that the cookie alone must not be enough. Not used over HTTPS.
 */
export const PAGE_HEADER = "x-countersign-page"

/** The query parameter with it, for streams and downloads, and the member of the fragment after single sign-on. */
export const PAGE_PARAMETER = "console_page"
