//! The calls that make pods and fetch images, as the kubelet makes them.

use super::{
    Client, CriError,
    making::{
        ContainerConfig, CreateContainerRequest, CreateContainerResponse, ExecSyncRequest, ExecSyncResponse,
        IdRequest, Image, ImageRequest, ImageStatusResponse, ListImagesResponse, Nothing, PodSandboxConfig,
        PullImageResponse, RunPodSandboxRequest, RunPodSandboxResponse, RuntimeConfigResponse, StatusRequest,
        StatusResponse,
    },
    message::ImageSpec,
};
use std::collections::BTreeMap;

impl Client {
    /// Makes a pod and starts its sandbox; gives back the sandbox's id.
    pub async fn run_pod_sandbox(&self, config: PodSandboxConfig, handler: &str) -> Result<String, CriError> {
        let request = RunPodSandboxRequest { config: Some(config), runtime_handler: handler.into() };
        let answer: RunPodSandboxResponse = self.call("RunPodSandbox", request).await?;
        Ok(answer.pod_sandbox_id)
    }

    /// Makes a container in a pod; gives back its id.
    pub async fn create_container(
        &self,
        sandbox: &str,
        config: ContainerConfig,
        of: PodSandboxConfig,
    ) -> Result<String, CriError> {
        let request = CreateContainerRequest {
            pod_sandbox_id: sandbox.into(),
            config: Some(config),
            sandbox_config: Some(of),
        };
        let answer: CreateContainerResponse = self.call("CreateContainer", request).await?;
        Ok(answer.container_id)
    }

    /// Starts a container.
    pub async fn start_container(&self, id: &str) -> Result<(), CriError> {
        self.of_id("StartContainer", id).await
    }

    /// Runs a command in a container, as an exec probe is run, and waits for its end; gives back its exit code.
    pub async fn exec_sync(&self, id: &str, command: &[String], timeout_s: i64) -> Result<i32, CriError> {
        let request = ExecSyncRequest { container_id: id.into(), cmd: command.to_vec(), timeout: timeout_s };
        let answer: ExecSyncResponse = self.call("ExecSync", request).await?;
        Ok(answer.exit_code)
    }

    /// Ends all that runs in a pod. One that is gone is no error.
    pub async fn stop_pod_sandbox(&self, id: &str) -> Result<(), CriError> {
        gone_is_fine(self.of_id("StopPodSandbox", id).await)
    }

    /// Removes a pod with its containers. One that is gone is no error.
    pub async fn remove_pod_sandbox(&self, id: &str) -> Result<(), CriError> {
        gone_is_fine(self.of_id("RemovePodSandbox", id).await)
    }

    async fn of_id(&self, call: &'static str, id: &str) -> Result<(), CriError> {
        let _: Nothing = self.call(call, IdRequest { id: id.into() }).await?;
        Ok(())
    }

    /// Fetches an image; gives back by what name the runtime has it.
    pub async fn pull_image(&self, image: &str) -> Result<String, CriError> {
        let answer: PullImageResponse = self.image_call("PullImage", of_image(image)).await?;
        Ok(answer.image_ref)
    }

    /// Whether the runtime has an image.
    pub async fn has_image(&self, image: &str) -> Result<bool, CriError> {
        let answer: ImageStatusResponse = self.image_call("ImageStatus", of_image(image)).await?;
        Ok(answer.image.is_some())
    }

    /// All images that the runtime has.
    pub async fn list_images(&self) -> Result<Vec<Image>, CriError> {
        let answer: ListImagesResponse = self.image_call("ListImages", Nothing {}).await?;
        Ok(answer.images)
    }

    /// Removes an image. One that is gone is no error.
    pub async fn remove_image(&self, image: &str) -> Result<(), CriError> {
        let answer: Result<Nothing, CriError> = self.image_call("RemoveImage", of_image(image)).await;
        gone_is_fine(answer.map(drop))
    }

    /// The verbose part of the runtime's status: JSON that is its own affair.
    pub async fn status_info(&self) -> Result<BTreeMap<String, String>, CriError> {
        let answer: StatusResponse = self.call("Status", StatusRequest { verbose: true }).await?;
        Ok(answer.info)
    }

    /// The cgroup driver that the runtime says it has: [`super::making::CGROUPFS`], or 0 for systemd's. `None` where it is too old to say.
    pub async fn cgroup_driver(&self) -> Result<Option<i32>, CriError> {
        let answer: Result<RuntimeConfigResponse, CriError> = self.call("RuntimeConfig", Nothing {}).await;
        match answer {
            Ok(answer) => Ok(answer.linux.map(|linux| linux.cgroup_driver)),
            Err(CriError::Unimplemented { .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }
}

fn of_image(image: &str) -> ImageRequest {
    ImageRequest { image: Some(ImageSpec { image: image.into(), user_specified_image: String::new() }) }
}

fn gone_is_fine(answer: Result<(), CriError>) -> Result<(), CriError> {
    match answer {
        Ok(()) | Err(CriError::NotFound { .. }) => Ok(()),
        Err(error) => Err(error),
    }
}
