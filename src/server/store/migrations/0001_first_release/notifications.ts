/** Notification endpoints, and the events and emails that are delivered. */
export const notifications = `
-- Webhook endpoints of an organization.
CREATE TABLE notification_endpoints (
  org_id text COLLATE "C" NOT NULL, -- Organization that owns the row.
  endpoint_id text COLLATE "C" NOT NULL, -- Id, the destination of its deliveries.
  url bytea NOT NULL, -- Sealed URL.
  url_hint text NOT NULL, -- URL without secrets, for display.
  secret bytea NOT NULL, -- Sealed signing secret.
  events text[] NOT NULL, -- Event types that the endpoint receives.
  active boolean NOT NULL DEFAULT true, -- Whether events are delivered; false after 410 Gone or when disabled by the API.
  created_at timestamptz NOT NULL, -- When the endpoint was created.
  created_by_id text COLLATE "C" NOT NULL, -- API key that created the row.
  created_by_name text NOT NULL, -- Name of that key at the time.
  previous_secret bytea, -- Sealed signing secret before the last rotation; null: none.
  previous_secret_until timestamptz, -- Until when the previous secret also signs; null: none.
  verified_at timestamptz, -- When it last answered a challenge; null: never.
  description text, -- What the endpoint is for, in the words of its organization; null: no description.
  disabled_at timestamptz, -- When it was disabled; null: it is active, or it was not recorded.
  disabled_by_id text COLLATE "C", -- API key that disabled it; null: a 410 Gone response did.
  disabled_by_name text, -- Name of that key at the time.
  disabled_by_delivery text COLLATE "C", -- Delivery that it answered with 410 Gone; null: it was disabled by an API key.
  public_signature boolean NOT NULL DEFAULT false, -- Whether deliveries also have an Ed25519 signature by the installation's key.
  unreported_entry_id text COLLATE "C", -- Entry of the audit log about its 410 Gone response, of which admins are yet to be notified; null: none.
  PRIMARY KEY (org_id, endpoint_id),
  CHECK ((previous_secret IS NULL) = (previous_secret_until IS NULL))
);
CREATE INDEX notification_endpoints_unreported ON notification_endpoints (org_id, endpoint_id) WHERE unreported_entry_id IS NOT NULL;

-- Approval events with the exact bytes that webhooks sign and send.
CREATE TABLE approval_events (
  org_id text COLLATE "C" NOT NULL, -- Organization that owns the row.
  event_id text COLLATE "C" NOT NULL, -- Id, evt_…; the webhook-id of its deliveries.
  type text NOT NULL, -- Event type, such as approval.requested.
  approval_id text COLLATE "C", -- Approval of the event; null: a test event.
  body bytea NOT NULL, -- JSON body as signed.
  occurred_at timestamptz NOT NULL, -- When it happened.
  "position" bigint, -- Place among the organization's events, in the order in which they were committed; null until the list of events is read.
  PRIMARY KEY (org_id, event_id)
);
CREATE INDEX approval_events_position ON approval_events (org_id, "position", occurred_at, event_id);

-- Newest position of an organization's approval events. Its lock serializes the numbering of events.
CREATE TABLE approval_event_heads (
  org_id text COLLATE "C" NOT NULL, -- Organization that owns the row.
  "position" bigint NOT NULL, -- Newest position.
  PRIMARY KEY (org_id)
) WITH (fillfactor=50);

-- Email to send about approvals, and to admins about entries of the audit log: one row per event and recipient. The text is written from the approval or the entry when the email is sent.
CREATE TABLE approval_mail (
  org_id text COLLATE "C" NOT NULL, -- Organization that owns the row.
  event_id text COLLATE "C" NOT NULL, -- Id of the email as a delivery event.
  type text NOT NULL, -- Event type that the email is about.
  approval_id text COLLATE "C", -- Approval that the email is about; null: it is about an entry.
  entry_id text COLLATE "C", -- Entry of the audit log that the email is about; null: it is about an approval.
  key_id text COLLATE "C" NOT NULL, -- API key whose address receives the email.
  occurred_at timestamptz NOT NULL, -- When the event happened.
  PRIMARY KEY (org_id, event_id),
  CHECK ((approval_id IS NULL) <> (entry_id IS NULL))
);
`
