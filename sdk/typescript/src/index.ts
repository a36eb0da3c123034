export { Client, type ClientOptions, type NewItem, type NewJob, type RequestOptions } from './client.js';
export { ApiError, ConnectionFailed, InvalidWebhook, TreelineError, type Problem } from './errors.js';
export { verifyWebhook, type WebhookHeaders } from './webhooks.js';
export type * from './schema.js';
