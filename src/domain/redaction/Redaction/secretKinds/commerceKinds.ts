/** Payments, commerce, messaging and mail; columns as in {@link parseKinds}. */
export const commerceKinds = `
Stripe | sk_live_ sk_test_ rk_live_ rk_test_ sk_prod_ rk_prod_ sk_org_live_ sk_org_test_ | {A24-107}
Stripe, Svix and other webhooks | whsec_ | {B32-88}{P0-2} {U32-88}
Stripe | pi_ seti_ | {A24-32}_secret_{A24-32}
Stripe | cs_live_ cs_test_ | {A40-70}_secret_{A24-32}
Square | sq0atp- sandbox-sq0atp- | {U22}
Square | sq0csp- sq0idp- sandbox-sq0csp- sq0acp- sq0csb- sandbox-sq0csb- | {U43}
Square | EAAA | {U22-60}
PayPal Braintree | access_token$production$ access_token$sandbox$ | {n16}\${h32}
PayPal Braintree | production_ sandbox_ | {n8}_{n16}
EasyPost | EZAK EZTK | {A54}
Flutterwave | FLWSECK- FLWSECK_TEST- FLWSECK_LIVE- | {n32}-X {n12}
Flutterwave | FLWSECK_TEST | {n12}
Shopify | shpat_ shpca_ shppa_ shpss_ shptka_ shpua_ | {x32} {A32}
Shippo | shippo_live_ shippo_test_ | {x40}
Duffel | duffel_live_ duffel_test_ | {M43}
Razorpay | rzp_live_ rzp_test_ | {A14}
Paystack | sk_live_ sk_test_ | {h40}
Paystack | sk_ | {h40}
Adyen | AQE | {A1-4}hm{B60-120}{P0-2}-{B43}{P0-1}-{V16}
Mollie | live_ test_ | {A30}
Mollie | access_ | {A30-40}
Plaid | access-sandbox- access-development- access-production- | {uuid}
Mercury | mercury_production_ | {l3}_{A45}_yrucrem {W40-64}
Ramp | ramp_sec_ | {A48}
Ramp | ramp_id_ | {A40}
Paddle | pdl_live_apikey_ pdl_sdbx_apikey_ | {n26}_{A22}_{A3}
Paddle | pdl_ntfset_ | {n26}_{A24-40}
Polar | polar_at_ polar_oat_ polar_pat_ polar_whs_ polar_cst_ polar_rt_ | {A43}
Polar | polar_at_u_ polar_at_o_ polar_rt_u_ polar_rt_o_ | {A32-43}
Midtrans | Mid-server- SB-Mid-server- | {U24}
Xendit | xnd_production_ xnd_development_ | {A60}
Asaas | $aact_prod_ $aact_hmlg_ $aact_ | {B60-164}{P0-2}::{B40-64}{P0-2} {Y60-200}
Pagar.me | ak_live_ ak_test_ | {A30}
Paymob | egy_sk_live_ are_sk_live_ egy_sk_test_ | {h64}
ReCharge | sk_1x1_ sk_1x3_ sk_2x2_ sk_5x1_ sk_10x1_ sk_test_1x1_ sk_test_1x3_ | {h64}
Coinbase | organizations/ | {uuid}/apiKeys/{uuid}
Gemini exchange | master- account- | {A20}
Alchemy | alcht_ | {A30}
Slack | xoxb- | {d10-13}-{d10-13}-{A24} {d8-14}-{A18-26}
Slack | xoxp- xoxe- | {d10-13}-{d10-13}-{d10-13}-{A28-34}
Slack | xoxe.xoxp- xoxe.xoxb- xoxe- | {d1}-{A146-166}
Slack | xoxb- xoxp- xoxa- xoxr- xoxs- xoxo- xoxe- xoxc- xoxd- xoxa-2- | {Q13-240}
Slack | xapp- xwfp- | {d1}-{N10-12}-{d10-14}-{A64} {U40-160}
SendGrid | SG. | {U22}.{U43} {M66}
Mailgun | key- pubkey- | {h32}
Mailgun | - | {h32}-{h8}-{h8}
Mandrill | md- | {U22}
Brevo | xkeysib- xsmtpsib- | {h64}-{A16}
MailerSend | mlsn. | {h64}
Twilio | SK | {h32}
Telnyx | KEY01 | {H30}_{A22} {U53}
Facebook | EAACEdEose0cBA | {A20-160}
Meta | EAA | {A100-240}
Instagram | IGQV IGQW IGAA | {U100-220}
Threads | THQW THAA | {U100-220}
Oculus | OC| | {d15-17}|{h32}
Facebook app | - | {d13-17}|{U27-40}
TikTok | act. rft. | {J40-80}
Pinterest | pina_ pinr_ | {A80}
X (Twitter) | AAAAAAAAAAAAAAAAAAAAA | {Q80-100}
LinkedIn | AQV AQW AQX | {U100-400}
LinkedIn | WPL_AP1. WPL_AP0. | {A16}.{B4-8}{P0-2} {D40-60}
DingTalk | SEC | {h64}
Dropbox | sl. sl.u. sl.B | {U130-160}
HubSpot | pat-na1- pat-eu1- pat-na2- pat-ap1- pat-na3- | {uuid}
Intercom | dG9rO | {B54-60}{P0-2}
eBay | PRD- | {h8-12}-{h4}-{h4}-{h4}-{h4-12}
eBay | SBX- | {h8-12}-{h4}-{h4}-{h4}-{h4-12}
eBay | v^1.1# | {Z100-1800}
GOV.UK, Canada Notify | gcntfy- | {U70-120}
PubNub | sec-c- | {B48}{P0-2}
PubNub | pub-c- sub-c- | {uuid}
Amazon | Atza| Atzr| amzn1.application-oa2-client. | {U60-400}
WooCommerce | ck_ cs_ | {h40}
Twitch | oauth: | {n30}
Mailchimp | - | {h32}-us{d1-2}
Telegram | - | {d8-10}:AA{U30-48} {d8-10}:A{U34}
Discord | - | M{U23-27}.{U6}.{U27-45} N{U23-27}.{U6}.{U27-45} O{U23-27}.{U6}.{U27-45} mfa.{U60-100}
Airtable | - | oa{A10-40}.v1.{U20-200}.{h64}
Dropbox | - | {n11}AAAAAAAAAA{M40-46}
Webex | - | {A64}_{A4}_{uuid}
Tableau | - | {B22}==:{A32}
Firebase messaging | - | {U11-22}:APA91b{U100-200}
Bitcoin | - | 5H{K49} 5J{K49} 5K{K49} K{K51} L{K51} xprv{K107} yprv{K107} zprv{K107} tprv{K107}
Nostr | nsec1 | {b58}
Stellar | - | SA{S54} SB{S54} SC{S54} SD{S54}
Cashfree | cfsk_ma_prod_ cfsk_ma_test_ | {h32}_{h8}
Courier | pk_prod_ pk_test_ | {N28}
`
