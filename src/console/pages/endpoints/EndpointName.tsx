import type { NotificationEndpoint } from "../../../domain/delivery/NotificationEndpoint.ts"
import { UntrustedText } from "../../ui/UntrustedText.tsx"

/** An endpoint as people recognize it: its description with the masked URL beside it, or the masked URL alone. */
export const EndpointName = ({
  endpoint
}: {
  readonly endpoint: Pick<NotificationEndpoint, "description" | "url_hint">
}) =>
  endpoint.description === null ? (
    <UntrustedText text={endpoint.url_hint} />
  ) : (
    <>
      <UntrustedText text={endpoint.description} />{" "}
      <span className="endpoint-url">
        <UntrustedText text={endpoint.url_hint} />
      </span>
    </>
  )
