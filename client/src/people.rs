//! People and their sessions, services and their tokens. All calls need the scope `admin`, except those for your own
//! sessions and password.

use domain::{
    api::Page,
    id::Uuid,
    identity::{
        access::{NewService, NewToken, Service, ServicePatch, Token, TokenMade},
        account::{LinkMade, NewUser, Session, SessionsEnded, User, UserMade, UserPatch},
    },
};
use reqwest::Method;

use crate::{api::idempotency_header, client::Client, error::Result, paging::PageQuery, retry::RetryPolicy};

impl Client {
    /// Creates a user. Without a password, the response contains a one-time sign-in link.
    pub async fn create_user(&self, new: &NewUser) -> Result<UserMade> {
        let call =
            self.post(&["users"]).json(new).header("idempotency-key", idempotency_header(&Uuid::now_v7().to_string())?);
        self.fetch(call.retry(RetryPolicy::Always)).await
    }

    /// People, by name.
    pub async fn users(&self, page: &PageQuery) -> Result<Page<User>> {
        self.list(self.get(&["users"]), page).await
    }

    /// One person.
    pub async fn user(&self, id: Uuid) -> Result<User> {
        self.fetch(self.get(&["users", &id.to_string()])).await
    }

    /// Changes a role, or closes an account.
    pub async fn patch_user(&self, id: Uuid, patch: &UserPatch) -> Result<User> {
        self.fetch(self.call(Method::PATCH, &["users", &id.to_string()]).json(patch).retry(RetryPolicy::Always)).await
    }

    /// Creates a one-time sign-in link, valid for one hour.
    pub async fn create_sign_in_link(&self, user: Uuid) -> Result<LinkMade> {
        let call = self.post(&["users", &user.to_string(), "sign-in-link"]);
        let call = call.header("idempotency-key", idempotency_header(&Uuid::now_v7().to_string())?);
        self.fetch(call.retry(RetryPolicy::Always)).await
    }

    /// Sessions of a person.
    pub async fn user_sessions(&self, user: Uuid, page: &PageQuery) -> Result<Page<Session>> {
        self.list(self.get(&["users", &user.to_string(), "sessions"]), page).await
    }

    /// Ends all sessions of a person.
    pub async fn end_user_sessions(&self, user: Uuid) -> Result<SessionsEnded> {
        let call = self.call(Method::DELETE, &["users", &user.to_string(), "sessions"]);
        self.fetch(call.retry(RetryPolicy::Always)).await
    }

    /// Ends one session of a person.
    pub async fn end_user_session(&self, user: Uuid, session: Uuid) -> Result<()> {
        let call = self.call(Method::DELETE, &["users", &user.to_string(), "sessions", &session.to_string()]);
        self.send(call).await.map(drop)
    }

    /// Creates a service, which owns everything that its tokens create.
    pub async fn create_service(&self, new: &NewService) -> Result<Service> {
        let call = self
            .post(&["services"])
            .json(new)
            .header("idempotency-key", idempotency_header(&Uuid::now_v7().to_string())?);
        self.fetch(call.retry(RetryPolicy::Always)).await
    }

    /// One service.
    pub async fn service(&self, id: Uuid) -> Result<Service> {
        self.fetch(self.get(&["services", &id.to_string()])).await
    }

    /// Disables a service as a whole, or enables it.
    pub async fn patch_service(&self, id: Uuid, patch: &ServicePatch) -> Result<Service> {
        self.fetch(self.call(Method::PATCH, &["services", &id.to_string()]).json(patch).retry(RetryPolicy::Always))
            .await
    }

    /// Services, by name.
    pub async fn services(&self, page: &PageQuery) -> Result<Page<Service>> {
        self.list(self.get(&["services"]), page).await
    }

    /// Creates a token. The response is the only place where its secret appears.
    pub async fn create_token(&self, new: &NewToken) -> Result<TokenMade> {
        let call = self
            .post(&["tokens"])
            .json(new)
            .header("idempotency-key", idempotency_header(&Uuid::now_v7().to_string())?);
        self.fetch(call.retry(RetryPolicy::Always)).await
    }

    /// Tokens, without their secrets.
    pub async fn tokens(&self, page: &PageQuery) -> Result<Page<Token>> {
        self.list(self.get(&["tokens"]), page).await
    }

    /// Revokes a token.
    pub async fn revoke_token(&self, id: Uuid) -> Result<()> {
        self.send(self.call(Method::DELETE, &["tokens", &id.to_string()]).retry(RetryPolicy::Always)).await.map(drop)
    }
}
