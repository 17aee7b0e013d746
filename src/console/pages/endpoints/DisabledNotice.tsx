import type { NotificationEndpoint } from "../../../domain/delivery/NotificationEndpoint.ts"
import { Link } from "../../app/router.tsx"
import { UntrustedText } from "../../ui/UntrustedText.tsx"
import { AbsoluteTime } from "../../ui/Time.tsx"

/** Who disabled an endpoint, when, and what that means for its events. */
export const DisabledNotice = ({
  endpoint: { disabled, id }
}: {
  readonly endpoint: NotificationEndpoint
}) => (
  <div className="notice">
    <p className="notice-title">
      {disabled === null ? (
        "Disabled"
      ) : disabled.by === null ? (
        <>
          Disabled by a 410 Gone response on <AbsoluteTime time={disabled.at} />
        </>
      ) : (
        <>
          Disabled by <UntrustedText text={disabled.by.name} /> on <AbsoluteTime time={disabled.at} />
        </>
      )}
    </p>
    {disabled === null || disabled.delivery_id === null ? null : (
      <p>
        The receiver gave this answer to the delivery{" "}
        <Link className="id" to={`/endpoints/${id}/deliveries/${disabled.delivery_id}`}>
          {disabled.delivery_id}
        </Link>
        .
      </p>
    )}
    <p>
      No events are delivered, and those of this time cannot be replayed. Enable it before you replay
      deliveries.
    </p>
  </div>
)
